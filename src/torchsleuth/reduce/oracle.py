"""Ask the Judge whether candidates still fail in the same way; keep the best, and ask nothing twice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.judge.match import Match
from torchsleuth.reduce.lint import problems

JudgeCases = Callable[[Sequence[Case]], Sequence[Match]]
KeyOf = Callable[[Case], str | None]  # the text that would be judged; None where there is none


class OutOfBudget(Exception):
    """Time is up, or the user lost patience: the best so far stands."""


@dataclass
class Oracle:
    judge: JudgeCases
    key_of: KeyOf
    best: Case
    deadline: float = float("inf")  # of time.monotonic
    stopped: Callable[[], bool] = lambda: False
    on_smaller: Callable[[Case, int], None] = lambda case, judged: None
    on_better: Callable[[Case], None] = lambda case: None  # smaller, or simpler at the same size
    ran: Callable[[], int] | None = None  # judgements that ran compiled code; all that were asked, where nobody counts
    known: dict[str, bool] = field(default_factory=dict)
    unknown: int = 0  # candidates of which nothing was learned: without them the result may not be minimal
    judged: int = 0
    judged_to_smallest: int = 0

    @property
    def counted(self) -> int:
        return self.judged if self.ran is None else self.ran()

    def fails(self, case: Case) -> bool:
        return self.fail([case])[0]

    def fail(self, cases: Sequence[Case]) -> list[bool]:
        """Whether each still fails.  Those that do and are smaller than the best take its place."""
        keys = [self._key(case) for case in cases]
        new: dict[str, Case] = {}
        for key, case in zip(keys, cases, strict=True):
            if key is not None and key not in self.known:
                new.setdefault(key, case)
        self._check_budget()  # also where all is known: a search that goes in circles must end
        if new:
            self.judged += len(new)
            for key, found in zip(new, self._matches(list(new.values())), strict=True):
                self.known[key] = found is Match.SAME
                if found is Match.SAME:
                    self._consider(new[key])
        return [key is not None and self.known[key] for key in keys]

    def _matches(self, cases: Sequence[Case]) -> list[Match]:
        """Judge each; those of which nothing was learned once more, and then they are passed over and counted."""
        found = list(self.judge(cases))
        left = [place for place, one in enumerate(found) if one is Match.UNKNOWN]
        if not left:
            return found
        self._check_budget()
        for place, again in zip(left, self.judge([cases[p] for p in left]), strict=True):
            found[place] = again
        self._check_budget()
        self.unknown += found.count(Match.UNKNOWN)
        return found

    def accept(self, case: Case) -> None:
        """`case` fails and is simpler, though not in the number of operators."""
        if case != self.best:
            self.best = case
            self.on_better(case)

    def _consider(self, case: Case) -> None:
        if operators(case.graph) < operators(self.best.graph):
            self.best = case
            self.judged_to_smallest = self.counted
            self.on_smaller(case, self.counted)
            self.on_better(case)

    def _key(self, case: Case) -> str | None:
        text = self.key_of(case) if next(problems(case), None) is None else None
        return None if text is None else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _check_budget(self) -> None:
        if time.monotonic() > self.deadline or self.stopped():
            raise OutOfBudget
