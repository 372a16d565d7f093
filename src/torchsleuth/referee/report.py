"""What the referee says of two runs: what is wrong, what is excused, what was compared and what was not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from torchsleuth.referee.verdict import Difference


def is_result(path: str) -> bool:
    """Whether it is the path of something that was returned."""
    return re.match(r"out(?!\w)", path) is not None


class Status(Enum):
    AGREES = "agrees"
    WRONG = "wrong"
    NOTHING_COMPARED = "nothing compared"
    # No Report tells these two: who compiles has to look.
    NOTHING_COMPILED = "nothing compiled"
    NOTHING_PLANTED = "nothing planted"  # by a backend that is there to plant a fault


@dataclass(frozen=True)
class Unread:
    """A value that both runs show and that was not compared: where it is, its type, and why if that says more."""

    path: str
    kind: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}{': ' if self.reason else ''}{self.reason})"


@dataclass(frozen=True)
class Report:
    wrong: tuple[Difference, ...] = ()
    excused: tuple[Difference, ...] = ()
    compared: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    nans: bool = False  # among eager's results
    strides: tuple[Difference, ...] = ()  # results in another order of memory: wrong only where somebody asks for it
    not_compared: tuple[Unread, ...] = ()
    results_compared: int = 0  # of `compared`, those that were returned

    @property
    def status(self) -> Status:
        """AGREES only where something was compared, and something of what was returned if that can be missed."""
        if self.wrong:
            return Status.WRONG
        missed = any(is_result(one.path) for one in self.not_compared)
        return Status.NOTHING_COMPARED if not self.compared or (missed and not self.results_compared) else Status.AGREES

    @property
    def how(self) -> str:
        """What makes two wrong results the same bug: the first kind of difference, values last."""
        kinds = [d.how for d in self.wrong]
        return next((k for k in ("type", "shape", "dtype", "device", "nan", "stride") if k in kinds), "values")

    @property
    def size(self) -> float:
        return max((d.compiled_error for d in self.wrong), default=0.0)
