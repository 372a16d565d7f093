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
from torchsleuth.judge.environment import judge_environment, without_torchsleuth
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.order import Cause, Ending, read_tail
from torchsleuth.judge.outcome import Outcome, Verdict, of_exit
from torchsleuth.judge.reading import how_it_ended

_LOOK_EVERY = 0.2  # seconds between looks at whether the user lost patience


@dataclass(frozen=True)
class Verification:
    runs: int
    failed_runs: int  # those that failed as wanted
    eager_passes: bool | None  # None: not looked at
    outcomes: tuple[Outcome, ...]  # of the compiled runs
    reason: str = ""
    flaky: bool = False  # failing now and then was enough

    @property
    def verified(self) -> bool:
        if self.flaky:
            return self.failed_runs >= 1 and self.eager_passes is True and not self.reason
        return self.runs >= 1 and self.failed_runs == self.runs and self.eager_passes is not False

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
) -> Verification:
    """`flaky`: failing now and then is enough, and eager is run as often, since it must never fail.

    `stopped` is asked while it waits: once it says so, what runs is ended and nothing more is begun.
    """
    eager_runs = (runs if flaky else 1) if check_eager else 0
    at_once = max(1, min(jobs, runs + eager_runs))

    def run(eager: bool) -> Outcome:
        return run_fresh(
            script, want.phase, python=python, environment=environment, deadline=deadline, eager=eager,
            stopped=stopped, at_once=at_once,
        )  # fmt: skip

    with ThreadPoolExecutor(jobs, "verify") as pool:
        eager = [pool.submit(run, True) for _ in range(eager_runs)]
        outcomes = tuple(pool.map(run, [False] * runs))
        eager_outcomes = [one.result() for one in eager]
    failed = sum(outcome.fails_like(want.fingerprint) for outcome in outcomes)
    passes = all(one.verdict is Verdict.PASSED for one in eager_outcomes) if eager else None
    counted = tuple(o for o in outcomes if o.verdict is not Verdict.PASSED) if flaky and failed else outcomes
    return Verification(runs, failed, passes, outcomes, _reason(want, counted, eager_outcomes), flaky)


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
    if stopped():
        return _cut_short("")
    folder = Path(tempfile.mkdtemp(prefix="torchsleuth-verify-"))
    try:
        return _run_in(folder, script, phase, python, environment, deadline, eager, stopped, at_once)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_in(
    folder: Path,
    script: Path,
    phase: Phase,
    python: str,
    environment: Mapping[str, str],
    deadline: float,
    eager: bool,
    stopped: Callable[[], bool],
    at_once: int,
) -> Outcome:
    place = folder / "repro"
    place.mkdir()
    copy = Path(shutil.copy(script, place))
    for data in script.parent.glob("repro_data*"):
        (shutil.copytree if data.is_dir() else shutil.copy)(data, place / data.name)
    if not eager:
        probed.seed(folder / "inductor")
    result, ending, output = folder / "result.json", folder / "ending.json", folder / "output.txt"
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        **({"TORCH_COMPILE_DISABLE": "1"} if eager else {}),
    }
    launch = Launch(
        (python, str(runner.__file__), str(copy), str(failure_module.__file__), str(result), phase.value),
        without_torchsleuth(judge_environment(environment, private)),
        str(place),
        str(output),
        Limits(deadline, default_memory_limit(at_once)),
        str(ending),
    )
    process = Guarded(launch)
    try:
        while not process.wait(_LOOK_EVERY) and not stopped():
            pass
    finally:
        process.stop()
        process.wait()
    return _outcome(result, Ending.read(str(ending)), read_tail(str(output)), phase)


def _outcome(result: Path, ending: Ending | None, output: str, phase: Phase) -> Outcome:
    if ending is None or ending.cause is Cause.CANCELLED:
        return _cut_short(output)
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
    return Outcome(Verdict.HARNESS_ERROR, None, "the run was cut short", output=output)


def _reason(want: Failure, outcomes: tuple[Outcome, ...], eager: Sequence[Outcome]) -> str:
    """Why it is not verified; empty when it is."""
    for outcome in eager:
        if outcome.verdict is not Verdict.PASSED:
            return f"it also fails with compilation switched off: {outcome.reason}"
    for outcome in outcomes:
        if outcome.verdict is Verdict.PASSED:
            return "it ran to its end without failing"
        if not outcome.fails_like(want.fingerprint):
            return f"it failed in another way: {outcome.reason}"
    return ""
