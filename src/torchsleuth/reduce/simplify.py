"""Runs the passes: what several of them propose is judged at once, and one by one only where that no longer fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchsleuth.case import user_kernels
from torchsleuth.case.ir import Arg, operators
from torchsleuth.case.model import Case, Tensor
from torchsleuth.reduce.edit import is_floating
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.passes import Pass

Say = Callable[[str], None]


class Simplifier:
    def __init__(self, oracle: Oracle, width: int, say: Say) -> None:
        self._oracle = oracle
        self._width = width
        self._say = say
        self._refused: dict[str, _Situation] = {}  # pass -> when it last had no success
        self._had: set[str | None] = set()  # texts that were the best already: two passes may undo each other's work

    def round(self, passes: Sequence[Pass]) -> bool:
        """Every pass once, until it has nothing left that still fails; True where something became simpler."""
        before = self._oracle.best
        if user_kernels.calls_one(before.graph):
            passes = [p for p in passes if not p.resizes]
        busy = [p for p in passes if p.name not in self._refused and next(iter(p.propose(before)), None) is not None]
        if busy:
            self._say(f"simplifying: {', '.join(p.name for p in busy)}")
        self._together([p for p in busy if p.bold])
        for step in passes:
            while self._improve(step):
                pass
        return self._oracle.best != before

    def _together(self, passes: Sequence[Pass]) -> None:
        """The boldest proposal of every pass on top of each other: all, else each half."""
        if len(passes) < 2:
            return
        changed = self._oracle.best
        for step in passes:
            changed = next(iter(step.propose(changed)), changed)
        if self._take(changed, self._oracle.fails(changed)):
            return
        middle = len(passes) // 2
        self._together(passes[:middle])
        self._together(passes[middle:])

    def _improve(self, step: Pass) -> bool:
        """Tries the pass's proposals in order, the boldest alone, then some at once; True when one was kept.

        A pass that was refused is asked again only in another situation.
        """
        proposals: list[Case] = list(step.propose(self._oracle.best))
        situation = _situation(self._oracle.best, len(proposals))
        if self._refused.get(step.name) == situation:
            return False
        for start in (0, *range(1, len(proposals), self._width)):
            batch = proposals[start : start + (self._width if start else 1)]
            for case, fails in zip(batch, self._oracle.fail(batch), strict=True):
                if self._take(case, fails):
                    return True
        self._refused[step.name] = situation
        return False

    def _take(self, case: Case, fails: bool) -> bool:
        """Makes a failing Case the best, unless its text, or what is said of it, was the best before."""
        if not fails or self._oracle.best is case:  # a smaller one is the best already
            return fails
        text = self._oracle.key_of(case)
        self._had.add(self._oracle.key_of(self._oracle.best))
        if text in self._had:
            return False
        self._oracle.accept(case)
        return True


@dataclass(frozen=True)
class _Situation:
    """Why a pass that was refused may succeed after all."""

    proposals: int
    operators: int
    whole_numbers: tuple[str, ...]  # how each input of integers is made: places and lengths may forbid smaller sizes
    results: Arg  # a result that was wanted may have kept its operators
    compared: tuple[str, ...]


def _situation(case: Case, proposals: int) -> _Situation:
    whole_numbers = tuple(v.fill for v in case.inputs if isinstance(v, Tensor) and not is_floating(v.dtype))
    compared = case.check.only if case.check is not None else ()
    return _Situation(proposals, operators(case.graph), whole_numbers, case.graph.output.args, compared)
