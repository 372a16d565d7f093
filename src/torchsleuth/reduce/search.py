"""Which subsets to test: probabilistic delta debugging.

Every item has a probability of being needed.  A test removes the set whose removal is expected to gain most; if the
failure is gone, each member of the set becomes more likely to be needed.  Two needed items far apart in a chain of 512
cost some forty tests, where halving stalls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Test = Callable[[Sequence[frozenset[T]]], Sequence[bool]]  # sets of items to keep -> does each still fail?

_EXPECTED = 4.0  # items that a bug needs, before anything is known
_CERTAIN = 1.0 - 1e-9


def minimise(items: Sequence[T], test: Test[T], prior: Mapping[T, float] | None = None, width: int = 1) -> list[T]:
    """A subset of `items` that fails and of which no single item can be removed.

    `items` fails as a whole.  `prior` holds what is believed before; `width` sets are tested at once, and
    successes that do not overlap are merged when their union fails too.
    """
    chance = {item: (prior or {}).get(item, _start(len(items))) for item in items}
    kept = list(items)
    while True:
        plans = _plans(kept, chance, width)
        if not plans:
            return kept
        results = test([frozenset(kept) - plan for plan in plans])
        gone = [plan for plan, fails in zip(plans, results, strict=True) if fails]
        for plan, fails in zip(plans, results, strict=True):
            if not fails:
                _blame(plan, chance)
        removed = _merged(kept, gone, test)
        kept = [item for item in kept if item not in removed]


def _start(count: int) -> float:
    return min(0.5, _EXPECTED / max(count, 1))


def _plans(kept: Sequence[T], chance: Mapping[T, float], width: int) -> list[frozenset[T]]:
    """The most promising sets to remove, disjoint."""
    order = sorted((item for item in kept if chance[item] < _CERTAIN), key=lambda item: chance[item])
    plans: list[frozenset[T]] = []
    while order and len(plans) < width:
        size = _best_size([chance[item] for item in order])
        plans.append(frozenset(order[:size]))
        order = order[size:]
    return plans


def _best_size(chances: Sequence[float]) -> int:
    best, gain, free = 1, -1.0, 1.0
    for size, chance in enumerate(chances, start=1):
        free *= 1.0 - chance
        if size * free > gain:
            best, gain = size, size * free
        if free < 1e-6:
            break
    return best


def _blame(plan: frozenset[T], chance: dict[T, float]) -> None:
    """The set held something needed: each member is more likely to be it."""
    free = math.prod(1.0 - chance[item] for item in plan)
    for item in plan:
        chance[item] = 1.0 if len(plan) == 1 else min(1.0, chance[item] / max(1e-12, 1.0 - free))


def _merged(kept: Sequence[T], gone: Sequence[frozenset[T]], test: Test[T]) -> frozenset[T]:
    if len(gone) <= 1:
        return gone[0] if gone else frozenset()
    whole = frozenset().union(*gone)
    if test([frozenset(kept) - whole])[0]:
        return whole
    return max(gone, key=len)


def shortest_prefix(length: int, fails: Callable[[int], bool]) -> int:
    """The smallest n for which the first n items fail, given that all do and that longer prefixes fail too."""
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high
