"""What a Judge says about one trial.

Only FAILED with the fingerprint one looks for counts as "still fails".  INVALID (eager itself fails) and HARNESS_ERROR
(nothing can be said) are kept apart from PASSED, so that neither a broken candidate nor a broken tool is mistaken for
the absence, or the presence, of the bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.generated import Noted

_NOTHING = Noted()


class Verdict(str, Enum):
    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    HARNESS_ERROR = "harness-error"


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

    def fails_like(self, fingerprint: Fingerprint) -> bool:
        return (
            self.verdict is Verdict.FAILED
            and self.failure is not None
            and self.failure.fingerprint.same_as(fingerprint)
        )


def of_exit(status: int, phase: Phase, text: str = "") -> Failure:
    """A script that ended the interpreter (os._exit, sys.exit) where compiled code should have returned."""
    kind = Kind.COMPILE_ERROR if phase.compiling else Kind.RUNTIME_ERROR
    return Failure(kind, phase, Fingerprint(f"exit {status}"), text)
