"""Failures that do not show in every run: how often, and how many runs it takes to believe that a candidate passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torchsleuth.judge.match import Match, combine

T = TypeVar("T")

_SAMPLE = 8
_MOST_SAMPLE = 48
_ENOUGH_FAILURES = 3  # of a sample: with fewer, the rate is hardly known
_DOUBT = 0.02  # of taking a Case that fails at times for one that passes
_MOST_REPEATS = 12
_MOST_RUNS = 12
_QUANTILE = 1.96  # of a 95 % interval


@dataclass(frozen=True)
class Chance:
    """How often one Case failed, of the runs that say anything."""

    failed: int = 1
    runs: int = 1

    @property
    def flaky(self) -> bool:
        return 0 < self.failed < self.runs

    @property
    def repeats(self) -> int:
        """Runs after which a candidate that never failed is believed to pass."""
        if not self.flaky:
            return 1
        return min(_MOST_REPEATS, math.ceil(math.log(_DOUBT) / math.log(1 - self.failed / self.runs)))

    def verifications(self, wanted: int) -> int:
        """Fresh processes in which a repro is run."""
        return max(wanted, min(_MOST_RUNS, self.repeats)) if self.flaky else wanted

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % (Wilson) interval of the rate at which it fails."""
        return interval(self.failed, self.runs)

    @property
    def sentence(self) -> str:
        low, high = self.interval
        between = f"the rate lies between {low:.0%} and {high:.0%} (95 % confidence)"
        return f"Flaky: it failed in {self.failed} of {self.runs} runs; {between}."


ALWAYS = Chance()


def interval(failed: int, runs: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a rate."""
    if not runs:
        return 0.0, 1.0
    rate, square = failed / runs, _QUANTILE**2
    middle = (rate + square / (2 * runs)) / (1 + square / runs)
    width = _QUANTILE / (1 + square / runs) * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs**2))
    return max(0.0, middle - width), min(1.0, middle + width)


def measure(judge: Callable[[Sequence[int]], Sequence[Match]]) -> Chance:
    """Sample until it has failed often enough for its rate to mean something.

    `judge` is given the numbers of attempts; attempt 0 was the first judgement.  Only runs that failed in the same way
    or passed count: another failure, an invalid run or one that was cut short says nothing of the rate.
    """
    matches: list[Match] = []
    while len(matches) < _MOST_SAMPLE:
        answers = judge(range(len(matches), len(matches) + _SAMPLE))
        matches += answers
        failed, passed = matches.count(Match.SAME), matches.count(Match.PASSED)
        if failed == 0 or passed == 0 or failed >= _ENOUGH_FAILURES or Match.UNKNOWN in answers:
            break
    return Chance(matches.count(Match.SAME), matches.count(Match.SAME) + matches.count(Match.PASSED))


def repeatedly(items: Sequence[T], repeats: int, judge: Callable[[Sequence[T], int], Sequence[Match]]) -> list[Match]:
    """Judge each item until it fails in the same way, at most `repeats` times."""
    matches: list[list[Match]] = [[] for _ in items]
    for attempt in range(repeats):
        left = [place for place, seen in enumerate(matches) if Match.SAME not in seen]
        if not left:
            break
        for place, found in zip(left, judge([items[p] for p in left], attempt), strict=True):
            matches[place].append(found)
    return [combine(seen) for seen in matches]
