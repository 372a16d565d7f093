"""Make a recorded Judgement again, in fresh processes, and count what comes of it.

A script that fresh processes judged is run without torchsleuth, as often as it was.  One that a worker judged is run
with torchsleuth importable: with compilation off, where it has to pass, and then on.  A command of the user's, or the
program, is run by the command on record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case.failure import Kind, Phase
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.rerun_command import run_command
from torchsleuth.judge.verify import Setup, run_set_up

_LEAST_OF_HANG = 60.0  # seconds, on top of twice what the recorded run was given


@dataclass(frozen=True)
class Conditions:
    """Where Judgements are made again, and until when."""

    python: str
    environment: Mapping[str, str]
    deadline: float  # seconds for one process
    stopped: Callable[[], bool] = lambda: False
    at_once: int = 1


@dataclass(frozen=True)
class Request:
    """A Judgement, and the script that stands for its candidate."""

    judgement: Judgement
    script: Path
    folder: Path  # of the run: recorded commands start there
    target: Target
    most_runs: int = 1  # of a failure that comes and goes: run until it fails in the same way, at most so often


@dataclass(frozen=True)
class Remade:
    """What the runs gave; `obstacle` says why the Judgement cannot be made here."""

    matches: tuple[Match, ...] = ()
    reason: str = ""  # of the first run that did not end as recorded
    seconds: float = 0.0
    obstacle: str = ""


def remake(request: Request, conditions: Conditions) -> Remade:
    """Run the candidate of a Judgement as it was run for the record."""
    if request.judgement.engine in (Engine.PROGRAM, Engine.COMMAND):
        return _by_command(request, conditions)
    obstacle = _not_runnable(request.script)
    return Remade(obstacle=obstacle) if obstacle else _by_script(request, conditions)


def _by_script(request: Request, conditions: Conditions) -> Remade:
    judgement = request.judgement
    outcomes: list[Outcome] = []
    if judgement.engine is Engine.WORKER and judgement.compiled:
        eager = _run(request, conditions, eager=True)
        if eager.verdict is not Verdict.PASSED:
            reason = f"with compilation off it fails: {eager.reason}"
            invalid = Match.INVALID if eager.verdict is Verdict.FAILED else Match.UNKNOWN
            return Remade((invalid,), reason, eager.seconds, _obstacle(eager))
    for _ in range(_most(request)):
        outcome = _run(request, conditions, eager=not judgement.compiled)
        outcomes.append(outcome)
        same = match(outcome, request.target) is Match.SAME
        if conditions.stopped() or (same and request.most_runs > 1):
            break
    return _count(request, outcomes)


def _most(request: Request) -> int:
    return max(1, request.judgement.runs, request.most_runs)


def _run(request: Request, conditions: Conditions, *, eager: bool) -> Outcome:
    judgement = request.judgement
    setup = Setup(
        conditions.python,
        conditions.environment,
        _deadline(request, conditions),
        eager,
        importable=judgement.engine is Engine.WORKER,
        cache_runs=1 if eager else judgement.cache_runs,
    )
    return run_set_up(request.script, _phase(judgement), setup, conditions.stopped, conditions.at_once)


def _deadline(request: Request, conditions: Conditions) -> float:
    """A hang is seen to hang for twice as long as on record; whatever else passes or fails gets the whole deadline."""
    judgement = request.judgement
    if request.target.failure.kind is not Kind.HANG or judgement.match is not Match.SAME:
        return conditions.deadline
    return min(conditions.deadline, _LEAST_OF_HANG + 2 * judgement.seconds / max(1, judgement.runs))


def _phase(judgement: Judgement) -> Phase:
    try:
        return Phase(judgement.phase)
    except ValueError:
        return Phase.RUN_FORWARD


def _by_command(request: Request, conditions: Conditions) -> Remade:
    judgement = request.judgement
    if not judgement.command:
        what = "the program" if judgement.engine is Engine.PROGRAM else "a command"
        return Remade(obstacle=f"it was judged by {what}, and no command that makes it again is on record")
    outcomes = []
    for _ in range(_most(request)):
        outcomes.append(run_command(judgement, request.folder, request.target, conditions.deadline, conditions.stopped))
        if conditions.stopped():
            break
    return _count(request, outcomes)


def _count(request: Request, outcomes: list[Outcome]) -> Remade:
    matches = tuple(match(one, request.target) for one in outcomes)
    seconds = sum(one.seconds for one in outcomes)
    odd = [one for one, found in zip(outcomes, matches, strict=True) if found is not request.judgement.match]
    obstacle = next(filter(None, (_obstacle(one) for one in odd)), "")
    return Remade(matches, odd[0].reason if odd else "", seconds, obstacle)


def _not_runnable(script: Path) -> str:
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "its script is not in the folder"
    if DATA_FILE in text and not (script.parent / DATA_FILE).exists():
        return f"its data ({DATA_FILE}) is not in the folder"
    return ""


# What an error says where the machine, and not the script, is the reason.
_NO_DEVICE = re.compile(
    r"Found no NVIDIA driver|not compiled with CUDA enabled|No CUDA GPUs are available|invalid device ordinal"
    r"|CUDA driver version is insufficient|no XPU devices|not linked with support for \w+ devices",
    re.I,
)


def _obstacle(outcome: Outcome) -> str:
    """Say why a run that did not end as recorded says nothing here; empty where it does say something."""
    failure = outcome.failure
    if outcome.verdict is not Verdict.FAILED or failure is None:
        return ""
    if failure.fingerprint.error == "ModuleNotFoundError":
        return f"{failure.summary.partition(': ')[2] or failure.fingerprint.message} (set PYTHONPATH, or use --python)"
    found = _NO_DEVICE.search(f"{failure.summary}\n{failure.text}")
    return f"it needs a device that is not here ({found.group()})" if found else ""
