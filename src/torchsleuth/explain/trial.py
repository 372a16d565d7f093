"""What came of marking a size or a number dynamic: three answers, of which "not known" is one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Answer(Enum):
    AGAIN = "compiled again"
    NOT_AGAIN = "not compiled again"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Trial:
    marked: str  # x
    answer: Answer
    times: int = 0  # it was seen to be compiled again
    why_not_known: str = ""

    @property
    def text(self) -> str:
        with_it = f"Tried: with {self.marked} marked dynamic"
        if self.answer is Answer.AGAIN:
            return f"{with_it}, it is compiled again all the same (seen {self.times} time{'s' * (self.times != 1)})."
        if self.answer is Answer.NOT_AGAIN:
            return f"{with_it}, it is not compiled again for this."
        return f"{with_it}: not known whether it is compiled again for this; {self.why_not_known}."
