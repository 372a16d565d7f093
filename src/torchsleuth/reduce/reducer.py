"""The way from a failing Case to a minimal one: guess, cut, search, simplify."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.reduce import guess, search
from torchsleuth.reduce.edit import CannotDrop, keep_only, units
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.oracle import Oracle, OutOfBudget
from torchsleuth.reduce.passes import PASSES, Pass

Unit = frozenset[str]
Say = Callable[[str], None]
_ROUNDS = 4  # of all passes; each round that changes something may make room for another


class Reducer:
    def __init__(
        self,
        oracle: Oracle,
        facts: Facts,
        *,
        named: str | None = None,
        suspects: Sequence[str] = (),
        width: int = 1,
        say: Say = lambda _: None,
    ) -> None:
        self._oracle = oracle
        self._facts = facts
        self._named = named
        self._suspects = suspects  # nodes at which it begins, by what was seen
        self._width = width
        self._say = say
        self._whole = oracle.best

    def reduce(self) -> Case:
        """The smallest Case found; on a spent budget, the smallest so far."""
        try:
            self._fewer_operators()
            self._simplify()
        except OutOfBudget:
            self._say("the budget is spent: this is the smallest so far")
        return self._oracle.best

    # --- operators ------------------------------------------------------------------------------------------------

    def _fewer_operators(self) -> None:
        everything = units(self._whole.graph)
        if len(everything) <= 1:
            return
        chosen = self._guess(everything) or self._cut(everything)
        for bypass in (True, False):
            if len(chosen) > 1:
                self._say(f"searching among {len(chosen)} operators")
                chosen = search.minimise(chosen, lambda sets, b=bypass: self._test(sets, b), width=self._width)  # type: ignore[misc]

    def _guess(self, everything: Sequence[Unit]) -> list[Unit]:
        for unit in everything:
            if not unit.isdisjoint(self._suspects):
                self._say("trying the suspect alone")
                if self._test([frozenset({unit})], False)[0]:
                    return [unit]
        suspects = guess.named(self._whole.graph, everything, self._named)
        for suspect in suspects:
            self._say(f"trying {self._named} alone")
            if self._test([frozenset({suspect})], False)[0]:
                return [suspect]
        kinds = guess.kinds(self._whole.graph, everything, self._facts)
        if 1 < len(kinds) < len(everything):
            self._say(f"trying one operator of each of {len(kinds)} kinds")
            if self._test([frozenset(kinds)], False)[0]:
                return self._bisect_kinds(kinds)
        return []

    def _bisect_kinds(self, kinds: list[Unit]) -> list[Unit]:
        """Halves while a half fails: one guilty kind is the usual end."""
        while len(kinds) > 1:
            middle = len(kinds) // 2
            halves = [kinds[:middle], kinds[middle:]]
            results = self._test([frozenset(half) for half in halves], False)
            failing = next((half for half, fails in zip(halves, results, strict=True) if fails), None)
            if failing is None:
                break
            kinds = failing
        return kinds

    def _cut(self, everything: Sequence[Unit]) -> list[Unit]:
        """The shortest failing prefix, then its latest failing start."""
        self._say(f"cutting {len(everything)} operators from the end, then from the start")
        end = search.shortest_prefix(len(everything), lambda n: self._test([frozenset(everything[:n])], True)[0])
        chosen = list(everything[:end])
        size = search.shortest_prefix(len(chosen), lambda n: self._test([frozenset(chosen[-n:])], True)[0])
        return chosen[-size:]

    def _test(self, sets: Sequence[Collection[Unit]], bypass: bool) -> list[bool]:
        cases: list[Case | None] = [self._kept(chosen, bypass) for chosen in sets]
        results = iter(self._oracle.fail([case for case in cases if case is not None]))
        return [case is not None and next(results) for case in cases]

    def _kept(self, chosen: Collection[Unit], bypass: bool) -> Case | None:
        names = frozenset().union(*chosen) if chosen else frozenset()
        if not names:
            return None
        try:
            return keep_only(self._whole, names, self._facts, bypass=bypass)
        except CannotDrop:
            return None

    # --- everything else ------------------------------------------------------------------------------------------

    def _simplify(self) -> None:
        for _ in range(_ROUNDS):
            before = self._oracle.best
            for step in PASSES:
                self._run_pass(step)
            if self._oracle.best == before:
                return

    def _run_pass(self, step: Pass) -> None:
        if next(step.propose(self._oracle.best), None) is None:
            return
        self._say(f"simplifying {counted(self._oracle.best)}: {step.does}")
        while self._improve(step):
            pass

    def _improve(self, step: Pass) -> bool:
        """Tries the pass's proposals in order, some at once; True when one was kept."""
        proposals = list(step.propose(self._oracle.best))
        for start in range(0, len(proposals), self._width):
            batch = proposals[start : start + self._width]
            for case, fails in zip(batch, self._oracle.fail(batch), strict=True):
                if fails:
                    self._oracle.accept(case)
                    return True
        return False


def counted(case: Case) -> str:
    count = operators(case.graph)
    return f"{count} operator{'s' * (count != 1)}"
