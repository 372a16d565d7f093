"""Whether a program fails by rounding alone, and at which operator.

Compiled code rounds otherwise than eager, and may.  A program that fails in eager as soon as its results are moved by
some units in the last place would fail with any correct compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.investigate.rerun import Again, NudgedRun, RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.referee.nudge import Step

_NUDGES = ((0, 2), (1, 4), (2, 16))  # seeds, and units in the last place
_MOVED, _MOVED_UNITS = 1e-3, 100.0  # relative differences, absolute and in last places, that no nudge makes alone
_JUMP = 30.0  # times as far apart as any value before
_FURTHER = 30.0  # times the difference under rounding: what is further from eager is not explained by it


@dataclass(frozen=True)
class Spread:
    """The first result that is far from its value without the nudge.

    before, after: the relative differences of what its operator was given, and of the result.
    outside: whether what it was given is far apart already, though no result of a graph was: the program computed it
        outside of its graphs, or drew it anew.
    """

    step: Step
    before: float
    after: float
    outside: bool = False

    @property
    def text(self) -> str:
        where = self.step.operator + (f" ({self.step.place})" if self.step.place else "")
        if self.outside:
            return f"{where} is given values that differ by {self.before:.2g} (relative), which no graph computed"
        if self.after < _JUMP * self.before:
            return f"the difference grows from operator to operator and is {self.after:.2g} (relative) at {where}"
        what = "other values" if not self.step.unit else f"a relative difference of {self.after:.2g}"
        return f"{where} makes {what} of a relative difference of {self.before:.2g}"


@dataclass(frozen=True)
class Sensitivity:
    """match: SAME where the nudged program fails as the compiled one does."""

    match: Match
    units: int = 0
    outcome: RerunOutcome | None = None
    spread: Spread | None = None

    @property
    def amplified(self) -> bool:
        """Whether a graph was seen to make much of the nudge."""
        return self.spread is not None and not self.spread.outside

    @property
    def text(self) -> str:
        assert self.outcome is not None
        unit = f"{self.units} units" if self.units != 1 else "1 unit"
        where = self.spread.text if self.spread is not None else _TIGHT
        return (
            f"the program is sensitive to rounding: with every graph in eager and each result moved by {unit} in the "
            f'last place (backend="sleuth_nudged"), it fails in the same way: it {self.outcome.evidence}; {where}'
        )


_TIGHT = (
    "no result of a graph is moved much further than that: the program makes much of it outside of its graphs, or "
    "compares more tightly than rounding allows"
)


def may_come_from_rounding(failure: Failure) -> bool:
    """Whether it is an error of linear algebra about the values of a matrix."""
    return failure.kind is Kind.RUNTIME_ERROR and failure.fingerprint.error.endswith("LinAlgError")


def ask(again: Again, say: Callable[[str], None], failure: Failure | None = None) -> Sensitivity:
    """Run the program with several nudges until one makes it fail in the same way."""
    answers = []
    for seed, units in _NUDGES:
        say(f"once more, in eager with each result moved by {units} units in the last place")
        moved = again.nudged(seed, units, failure)
        answers.append(moved.outcome.match)
        if moved.outcome.match is Match.SAME and not _is_further(again, moved.outcome):
            say("it fails so: once more without moving anything, to see which operator makes much of it")
            return Sensitivity(Match.SAME, units, moved.outcome, _spread(again, moved))
    rest = (Match.UNKNOWN, Match.SAME, Match.PASSED, Match.OTHER)
    found = next(one for one in rest if one in answers) if set(answers) & set(rest) else Match.UNKNOWN
    return Sensitivity(Match.PASSED if found is Match.SAME else found)


def _is_further(again: Again, nudged: RerunOutcome) -> bool:
    """Whether compiled code is further from eager than rounding takes it, where the program says how far."""
    compiled, rounded = again.first.difference, nudged.end.difference
    return compiled is not None and rounded is not None and compiled > _FURTHER * rounded


def _spread(again: Again, moved: NudgedRun) -> Spread | None:
    return first_spread(again.nudged(0, 0).steps, moved.steps)


def first_spread(plain: Sequence[Step], moved: Sequence[Step]) -> Spread | None:
    """None: nothing is far apart, or the runs computed other operators."""
    for one, other in zip(plain, moved, strict=False):
        if one.operator != other.operator or len(one.sample) != len(other.sample):
            return None  # the program went another way
        apart, before = difference(one, other), relative(one.inputs, other.inputs)
        limit = max(_MOVED, _MOVED_UNITS * one.unit)
        if apart >= limit or (not one.unit and apart > 0):
            return Spread(one, before, apart, outside=before >= limit)
    return None


def difference(one: Step, other: Step) -> float:
    """Of floats the relative one, of integers and bools the share of elements that differ."""
    if one.unit:
        return relative(one.sample, other.sample)
    return sum(a != b for a, b in zip(one.sample, other.sample, strict=True)) / max(1, len(one.sample))


def relative(one: Sequence[float], other: Sequence[float]) -> float:
    """In the Euclidean norm; 1 where one of the two is not finite, or where they are of different lengths."""
    if len(one) != len(other):
        return 1.0
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if not (a == b or (a != a and b != b))]
    if not all(math.isfinite(a) and math.isfinite(b) for a, b in pairs):
        return 1.0
    size = math.hypot(*(a for a in one if math.isfinite(a)))
    apart = math.hypot(*(a - b for a, b in pairs))
    return apart / size if size else float(apart > 0)
