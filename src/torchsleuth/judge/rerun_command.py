"""Run the command on record of a Judgement: a check of the user's, or the program itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from torchsleuth.case.failure import Kind, Phase, of_hang, of_signal, of_text
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.order import Cause, Ending, read_tail
from torchsleuth.judge.outcome import Outcome, Verdict

_CANNOT_SAY = 125  # of a check, as for `git bisect run`
_LOOK_EVERY = 0.2  # seconds


def run_command(
    judgement: Judgement, folder: Path, target: Target, deadline: float, stopped: Callable[[], bool]
) -> Outcome:
    """Run the command in a shell, in the output folder."""
    if stopped():
        return Outcome(Verdict.UNKNOWN, reason="the run was cut short")
    place = Path(tempfile.mkdtemp(prefix="torchsleuth-audit-"))
    try:
        output, ending = place / "output.txt", place / "ending.json"
        command = ("sh", "-c", judgement.command)
        limits = Limits(deadline, default_memory_limit(1))
        process = Guarded(Launch(command, dict(os.environ), str(folder), str(output), limits, str(ending)))
        try:
            while not process.wait(_LOOK_EVERY) and not stopped():
                pass
        finally:
            process.stop()
            process.wait()
        return read_ending(judgement.engine, Ending.read(str(ending)), read_tail(str(output)), target)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def read_ending(engine: Engine, ending: Ending | None, output: str, target: Target) -> Outcome:
    """Judge by the exit status, and of a program by the error that it ended with."""
    if ending is None or ending.cause is Cause.CANCELLED:
        return Outcome(Verdict.UNKNOWN, reason="the run was cut short", output=output)
    if ending.cause is Cause.EXITED and ending.status == 0:
        return Outcome(Verdict.PASSED, seconds=ending.seconds, output=output)
    if engine is Engine.COMMAND:
        return _of_check(ending, output, target)
    return _of_program(ending, output, target)


def _of_check(ending: Ending, output: str, target: Target) -> Outcome:
    last = _last_line(output)
    if ending.cause is not Cause.EXITED or not 1 <= ending.status <= _CANNOT_SAY:
        reason = f"the check ended with {ending.cause.value} {ending.status}, which says nothing: {last}"
        return Outcome(Verdict.UNKNOWN, reason=reason, seconds=ending.seconds, output=output)
    if ending.status == _CANNOT_SAY:
        return Outcome(Verdict.INVALID, reason="the check cannot say", seconds=ending.seconds, output=output)
    return Outcome(Verdict.FAILED, target.failure, last, ending.seconds, output=output)


def _of_program(ending: Ending, output: str, target: Target) -> Outcome:
    last, phase = _last_line(output), target.failure.phase
    if ending.cause is Cause.DEADLINE:
        failure = of_hang(phase)
    elif ending.cause is not Cause.EXITED:
        return Outcome(Verdict.UNKNOWN, reason=f"it was stopped ({ending.cause.value})", seconds=ending.seconds)
    elif ending.status < 0:
        failure = of_signal(-ending.status, phase)
    else:
        failure = of_text(last or f"exit {ending.status}", Kind.RUNTIME_ERROR, Phase(phase))
    outcome = Outcome(Verdict.FAILED, failure, failure.fingerprint.line, ending.seconds, output=output)
    if target.failure.kind is Kind.ACCURACY and match(outcome, Target(target.failure)) is not Match.SAME:
        # Nobody raises wrong numbers: from outside, the program's own error does not tell them.
        reason = f"it failed ({last}), and whether with the same wrong numbers is not seen from outside"
        return Outcome(Verdict.UNKNOWN, reason=reason, seconds=ending.seconds, output=output)
    return outcome


def _last_line(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
