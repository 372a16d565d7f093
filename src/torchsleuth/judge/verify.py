"""Proof that a repro works: run it in fresh interpreters, without torchsleuth, and see it fail in the same way.

The same script must end well with compilation switched off; otherwise it shows a fault of its own, not the compiler's.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case import failure as failure_module
from torchsleuth.case.failure import Failure, Phase
from torchsleuth.judge import probed, runner
from torchsleuth.judge.environment import judge_environment, with_torchsleuth, without_torchsleuth
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.match import Match, Target, combine, match
from torchsleuth.judge.order import Cause, Ending, read_tail
from torchsleuth.judge.outcome import Outcome, Verdict, of_exit
from torchsleuth.judge.reading import how_it_ended, stopped_by_limit

_LOOK_EVERY = 0.2  # seconds between looks at whether the user lost patience


@dataclass(frozen=True)
class Verification:
    """What fresh interpreters say about a script."""

    runs: int
    failed_runs: int  # those that failed in the wanted way
    eager: Match | None  # of all runs with compilation off; None: there were none
    outcomes: tuple[Outcome, ...]  # of the compiled runs
    reason: str = ""  # why it is not verified
    flaky: bool = False  # failing now and then was enough
    seconds: float = 0.0  # of all runs together

    @property
    def eager_passes(self) -> bool | None:
        """False only where eager was seen to fail; a run that was cut short says nothing."""
        return {Match.PASSED: True, Match.SAME: False, Match.OTHER: False}.get(self.eager) if self.eager else None

    @property
    def verified(self) -> bool:
        if self.flaky:
            return self.failed_runs >= 1 and self.eager_passes is True and not self.reason
        return self.runs >= 1 and self.failed_runs == self.runs and self.eager in (None, Match.PASSED)

    @property
    def undecided(self) -> bool:
        """Whether some run passed where others, or the judge, saw it fail: it may come and go."""
        return self.eager_passes is not False and any(o.verdict is Verdict.PASSED for o in self.outcomes)


def verify(
    script: Path,
    want: Failure,
    *,
    python: str,
    environment: Mapping[str, str],
    runs: int = 3,
    deadline: float,
    jobs: int = 2,
    check_eager: bool = True,
    flaky: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    run_script: Callable[..., Outcome] | None = None,
) -> Verification:
    """`flaky`: failing now and then is enough, and eager is run as often, since it must never fail.

    `stopped` is asked while it waits: once it says so, what runs is ended and nothing more is begun.  `run_script` runs
    one script, called as `run_fresh` is; None: `run_fresh`.
    """
    eager_runs = (runs if flaky else 1) if check_eager else 0
    at_once = max(1, min(jobs, runs + eager_runs))

    def run(eager: bool) -> Outcome:
        return (run_script or run_fresh)(
            script, want.phase, python=python, environment=environment, deadline=deadline, eager=eager,
            stopped=stopped, at_once=at_once,
        )  # fmt: skip

    with ThreadPoolExecutor(jobs, "verify") as pool:
        eager = [pool.submit(run, True) for _ in range(eager_runs)]
        outcomes = tuple(pool.map(run, [False] * runs))
        eager_outcomes = [one.result() for one in eager]
    target = Target(want)
    failed = sum(match(outcome, target) is Match.SAME for outcome in outcomes)
    off = combine(match(one, target) for one in eager_outcomes) if eager else None
    counted = tuple(o for o in outcomes if o.verdict is not Verdict.PASSED) if flaky and failed else outcomes
    seconds = sum(one.seconds for one in (*outcomes, *eager_outcomes))
    return Verification(runs, failed, off, outcomes, _reason(target, counted, eager_outcomes), flaky, seconds)


@dataclass(frozen=True)
class Setup:
    """How a script is run in a fresh interpreter."""

    python: str
    environment: Mapping[str, str]
    deadline: float  # seconds for each process, from its start
    eager: bool = False  # with compilation off
    importable: bool = False  # torchsleuth can be imported: a script that a worker judged may need it
    cache_runs: int = 1  # processes that share one cache; the last one counts


def run_fresh(
    script: Path,
    phase: Phase,
    *,
    python: str,
    environment: Mapping[str, str],
    deadline: float,
    eager: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    at_once: int = 1,
) -> Outcome:
    """Run a copy of the script, with private caches, in an interpreter that cannot import torchsleuth.

    `at_once` such runs share the memory that is free.
    """
    return run_set_up(script, phase, Setup(python, environment, deadline, eager), stopped, at_once)


def run_set_up(
    script: Path, phase: Phase, setup: Setup, stopped: Callable[[], bool] = lambda: False, at_once: int = 1
) -> Outcome:
    """Run a copy of the script, with private caches, as `setup` says.

    With `cache_runs`, a process that does not pass is the last one, as in `judge/conduct.py`: a failure that is there
    before the cache is filled is no matter of the cache.
    """
    if stopped():
        return _cut_short("")
    folder = Path(tempfile.mkdtemp(prefix="torchsleuth-verify-"))
    try:
        copy = _copy(script, folder / "repro")
        if not setup.eager:
            probed.seed(folder / "inductor")
        outcome = _run_copy(copy, folder / "1", phase, setup, stopped, at_once)
        for number in range(2, setup.cache_runs + 1):
            if outcome.verdict is not Verdict.PASSED:
                break
            outcome = _run_copy(copy, folder / str(number), phase, setup, stopped, at_once)
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(script: Path, place: Path) -> Path:
    place.mkdir()
    for data in script.parent.glob("repro_data*"):
        (shutil.copytree if data.is_dir() else shutil.copy)(data, place / data.name)
    return Path(shutil.copy(script, place))


def _run_copy(
    copy: Path, folder: Path, phase: Phase, setup: Setup, stopped: Callable[[], bool], at_once: int
) -> Outcome:
    """Run the script in one process; `folder` takes what that process leaves, the caches stand beside it."""
    folder.mkdir()
    result, ending, output = folder / "result.json", folder / "ending.json", folder / "output.txt"
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "inductor"),
        "TRITON_CACHE_DIR": str(folder.parent / "triton"),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        **({"TORCH_COMPILE_DISABLE": "1"} if setup.eager else {}),
    }
    command = (setup.python, str(runner.__file__), str(copy), str(failure_module.__file__), str(result), phase.value)
    environment = judge_environment(setup.environment, private)
    launch = Launch(
        (*command, runner.IMPORTABLE) if setup.importable else command,
        with_torchsleuth(environment) if setup.importable else without_torchsleuth(environment),
        str(copy.parent),
        str(output),
        Limits(setup.deadline, default_memory_limit(at_once)),
        str(ending),
    )
    process = Guarded(launch)
    try:
        while not process.wait(_LOOK_EVERY) and not stopped():
            pass
    finally:
        process.stop()
        process.wait()
    return _outcome(result, Ending.read(str(ending)), read_tail(str(output)), phase, setup.eager)


def _outcome(result: Path, ending: Ending | None, output: str, phase: Phase, eager: bool) -> Outcome:
    if ending is None or ending.cause is Cause.CANCELLED:
        return _cut_short(output)
    if eager and stopped_by_limit(ending):
        reason = f"with compilation off it was stopped by a limit ({ending.cause.value})"
        return Outcome(Verdict.UNKNOWN, None, reason, ending.seconds, output=output)
    found = json.loads(result.read_text()) if result.exists() else None
    if found is None:
        failure = how_it_ended(ending, output, phase)
    elif "failure" in found:
        failure = Failure.from_json(found["failure"])
    elif found["exit"]:
        failure = of_exit(found["exit"], phase, output)
    else:
        return Outcome(Verdict.PASSED, seconds=ending.seconds, output=output)
    return Outcome(Verdict.FAILED, failure, failure.fingerprint.line, ending.seconds, output=output)


def _cut_short(output: str) -> Outcome:
    return Outcome(Verdict.UNKNOWN, None, "the run was cut short", output=output)


def _reason(target: Target, outcomes: tuple[Outcome, ...], eager: Sequence[Outcome]) -> str:
    """Say why a script is not verified; empty when it is."""
    for outcome in eager:
        if outcome.verdict is Verdict.FAILED:
            return f"it also fails with compilation off: {outcome.reason}"
        if outcome.verdict is not Verdict.PASSED:
            return f"whether it passes with compilation off is not known: {outcome.reason}"
    sentences = {
        Match.PASSED: "it ran to its end without failing",
        Match.OTHER: "it failed in another way: {}",
        Match.UNKNOWN: "it could not be run: {}",
        Match.INVALID: "it could not be run: {}",
    }
    for outcome in outcomes:
        found = match(outcome, target)
        if found is not Match.SAME:
            return sentences[found].format(outcome.reason)
    return ""
