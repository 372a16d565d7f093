"""The outcome of one run of a candidate.

A run has two stages, eager and compiled.  INVALID means that the candidate cannot show a fault of the compiler: eager
itself fails, or no script can hold it.  UNKNOWN means that nothing was learned: the run was cancelled, eager ran out of
time or memory, or the harness failed.  Neither is ever read as PASSED or FAILED; `judge/match.py` compares outcomes.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_memory_limit, of_signal
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.generated import Noted

_NOTHING = Noted()
# A process that was killed for what it took: in a trial by our own limit or by the kernel, which look alike there.
_LIMIT = of_memory_limit(Phase.RUN_FORWARD).fingerprint
_KILLED = (_LIMIT, of_signal(signal.SIGKILL, Phase.RUN_FORWARD).fingerprint)
_OF_HOST = re.compile(r"can't allocate memory|Cannot allocate memory|(?<!OutOf)MemoryError|bad_alloc", re.I)


class Verdict(str, Enum):
    """How one run of a candidate ended."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    failure: Failure | None = None
    reason: str = ""
    seconds: float = 0.0  # of the run with compilation on
    eager_seconds: float = 0.0
    output: str = ""  # the end of what the script printed, standard error included
    noted: Noted = _NOTHING  # what the generated code of the failing kernel names
    applied: tuple[Applied, ...] = ()  # what the compiler came to apply, where the script asks for a list


def of_exit(status: int, phase: Phase, text: str = "") -> Failure:
    """A script that ended the interpreter (os._exit, sys.exit) where compiled code should have returned."""
    kind = Kind.COMPILE_ERROR if phase.compiling else Kind.RUNTIME_ERROR
    return Failure(kind, phase, Fingerprint(f"exit {status}"), text)


def is_killed_for_memory(failure: Failure) -> bool:
    return failure.fingerprint in _KILLED


def short_of_same_memory(alone: Failure, of_program: Failure) -> bool:
    """Whether a trial ran out of the memory that a program ran out of: the host's, or another, such as a device's.

    Our limit is the host's: it stands for a program that was killed, or that the host refused memory, and never for
    what torch raises of a device.  A program that was killed raised nothing, so nothing that is raised stands for it.
    """
    if is_killed_for_memory(of_program):
        return is_killed_for_memory(alone)
    if not (alone.kind is of_program.kind is Kind.OUT_OF_MEMORY):
        return False
    return _of_host(alone) is _of_host(of_program)


def _of_host(failure: Failure) -> bool:
    mark = failure.fingerprint
    if mark.error.endswith("OutOfMemoryError"):  # torch's, of any device
        return False
    return mark == _LIMIT or _OF_HOST.search(mark.line) is not None
