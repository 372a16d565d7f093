"""From what the processes of an order left behind to an Outcome."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import (
    Failure,
    Phase,
    of_hang,
    of_memory_limit,
    of_signal,
    signal_name,
)
from torchsleuth.judge import applied
from torchsleuth.judge.order import Cause, Ending, Order, read_report, read_tail
from torchsleuth.judge.outcome import Outcome, Verdict, of_exit

# What faulthandler.dump_traceback_later(..., exit=True) prints before it ends the process: a script that stops itself.
_STOPPED_ITSELF = "Timeout ("
_ILL_FORMED = {"NameError", "SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError"}


def read_outcome(order: Order) -> Outcome:
    """The Outcome of an order whose processes are gone."""
    said = judge_remains(Ending.read(order.ending), read_report(order.report), read_tail(order.output), order.phase)
    return replace(said, applied=applied.read(Path(order.work)))


def ran_compiled(outcome: Outcome) -> bool:
    return outcome.verdict in (Verdict.PASSED, Verdict.FAILED)


def judge_remains(ending: Ending | None, events: list[dict[str, Any]], output: str, phase: Phase) -> Outcome:
    eager_seconds = next((float(e["seconds"]) for e in events if e["event"].startswith("eager-p")), 0.0)
    last: dict[str, Any] = events[-1] if events else {"event": "nothing"}
    seconds = float(last.get("seconds", ending.seconds if ending else 0.0))

    def say(verdict: Verdict, reason: str = "", failure: Failure | None = None) -> Outcome:
        return Outcome(verdict, failure, reason, seconds, eager_seconds, output)

    if ending is not None and ending.cause is Cause.CANCELLED:
        return say(Verdict.UNKNOWN, "cancelled")
    match last["event"]:
        case "compiled-passed":
            return say(Verdict.PASSED)
        case "compiled-failed":
            failure = Failure.from_json(last["failure"])
            return say(Verdict.FAILED, failure.fingerprint.line, failure)
        case "eager-failed":
            failure = Failure.from_json(last["failure"])
            return say(Verdict.INVALID, f"{_whose(failure)}: {failure.fingerprint.line}")
        case "harness-error":
            return say(Verdict.UNKNOWN, str(last["text"]))
    if ending is None:
        return say(Verdict.UNKNOWN, "the process that watched over the trial died")
    match last["event"]:
        case "compiled-began":
            failure = how_it_ended(ending, output, phase)
            return say(Verdict.FAILED, failure.fingerprint.line, failure)
        case "eager-began":
            if stopped_by_limit(ending):
                return say(Verdict.UNKNOWN, f"eager was stopped by a limit of the judge: {_describe(ending)}")
            failure = how_it_ended(ending, output, phase)
            return say(Verdict.INVALID, f"eager itself fails: {failure.fingerprint.line}")
    return say(Verdict.UNKNOWN, f"the trial ended before it began: {_describe(ending)}")


def stopped_by_limit(ending: Ending) -> bool:
    """Whether a deadline or a lack of memory ended the process, which says nothing about the script."""
    return ending.cause is not Cause.EXITED or ending.status == -signal.SIGKILL


def _whose(failure: Failure) -> str:
    """A script with a name that nothing binds was written wrongly, or lost a line: eager has no part in that."""
    if failure.fingerprint.error in _ILL_FORMED:
        return "the script is ill-formed"
    if failure.fingerprint.error.endswith("BrokenInvariant"):
        return "no correct program makes such a tensor"
    return "eager itself fails"


def how_it_ended(ending: Ending, output: str, phase: Phase) -> Failure:
    """The Failure of a script that ended its process without an exception."""
    return replace(_without_text(ending, output, phase), text=output)


def _without_text(ending: Ending, output: str, phase: Phase) -> Failure:
    if ending.cause is Cause.DEADLINE:
        return of_hang(phase)
    # A SIGKILL that is not ours is the kernel's, short of memory.
    if ending.cause is Cause.MEMORY or ending.status == -signal.SIGKILL:
        return of_memory_limit(phase)
    if ending.status == -signal.SIGALRM:  # how a script of ours that hangs stops itself
        return of_hang(phase)
    if ending.status < 0:
        return of_signal(-ending.status, phase)
    if ending.status and _STOPPED_ITSELF in output:
        return of_hang(phase)
    return of_exit(ending.status, phase)


def _describe(ending: Ending) -> str:
    if ending.cause is not Cause.EXITED:
        return str(ending.cause.value)
    return f"ended by {signal_name(-ending.status)}" if ending.status < 0 else f"exit status {ending.status}"
