"""Failures that come and go: how often, and how many judgements it takes to be sure that a candidate does not fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_SAMPLE = 8
_DOUBT = 0.02  # of taking a Case that fails now and then for one that passes
_MOST_REPEATS = 12
_MOST_RUNS = 12


@dataclass(frozen=True)
class Chance:
    """What was seen of one Case judged several times."""

    failed: int = 1
    runs: int = 1

    @property
    def flaky(self) -> bool:
        return 0 < self.failed < self.runs

    @property
    def repeats(self) -> int:
        """Judgements after which a candidate that never failed is believed to pass."""
        if not self.flaky:
            return 1
        return min(_MOST_REPEATS, math.ceil(math.log(_DOUBT) / math.log(1 - self.failed / self.runs)))

    def verifications(self, wanted: int) -> int:
        """Fresh processes in which a repro is run."""
        return max(wanted, min(_MOST_RUNS, self.repeats)) if self.flaky else wanted

    @property
    def said(self) -> str:
        return f"It comes and goes: judged alone, it failed in {self.failed} of {self.runs} runs."


ALWAYS = Chance()


def measure(fails: Callable[[Sequence[int]], Sequence[bool]]) -> Chance:
    """`fails` is given the numbers of attempts, all at once; attempt 0 was the first judgement."""
    answers = list(fails(range(_SAMPLE)))
    return Chance(sum(answers), len(answers))


def repeatedly(items: Sequence[T], repeats: int, fails: Callable[[Sequence[T], int], Sequence[bool]]) -> list[bool]:
    """Whether each fails in any of so many attempts; what failed once is not asked again."""
    found = [False] * len(items)
    for attempt in range(repeats):
        left = [place for place, failed in enumerate(found) if not failed]
        if not left:
            break
        for place, failed in zip(left, fails([items[p] for p in left], attempt), strict=True):
            found[place] = failed
    return found
