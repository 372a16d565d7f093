"""The way from a failing Case to a minimal one: guess, cut, search, simplify."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from torchsleuth.case.failure import Kind
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.judge.generated import Noted
from torchsleuth.reduce import bodies, cone, guess, search
from torchsleuth.reduce.edit import CannotDrop, keep_only
from torchsleuth.reduce.facts import Facts, from_graph
from torchsleuth.reduce.oracle import Oracle, OutOfBudget
from torchsleuth.reduce.passes import PASSES, block_masks
from torchsleuth.reduce.simplify import Simplifier
from torchsleuth.reduce.units import Unit, has_levels, units

Say = Callable[[str], None]
_FEW = 8  # operators that are searched without further guesses
_WORTH_BRIDGING = 5  # operators: a bridge takes two
_ROUNDS = 4  # of all passes; each round that changes something may make room for another


@dataclass(frozen=True)
class Hints:
    """What is known of the culprit before anything is judged."""

    named: str | None = None  # the operator that the error names
    noted: Noted = field(default_factory=Noted)  # what the generated code of the failing kernel names
    results: tuple[str, ...] = ()  # of wrong numbers: nodes that stand at the wrong results


class Reducer:
    def __init__(
        self,
        oracle: Oracle,
        facts: Facts,
        *,
        hints: Hints | None = None,
        suspects: Callable[[Case], Sequence[str]] = lambda _: (),  # nodes of a failing Case at which it begins
        wrong_results: Callable[[Case], Sequence[str]] = lambda _: (),  # nodes of a failing Case that are wrong results
        width: int = 1,
        say: Say = lambda _: None,
        settled: Callable[[Case], None] = lambda _: None,  # told of what has no operator too many, not yet simplified
    ) -> None:
        self._settled = settled
        self._oracle = oracle
        self._facts = facts
        self._hints = hints or Hints()
        self._suspects = suspects
        self._wrong_results = wrong_results
        self._width = width
        self._say = say
        self._whole = oracle.best
        self._simplifier = Simplifier(oracle, width, say)

    def reduce(self) -> Case:
        """The smallest Case found; on a spent budget, the smallest so far."""
        try:
            self._without_bodies()
            self._fewer_operators()
            self._with_one_block()
            self._inside_bodies()
            self._settled(self._oracle.best)
            if self._with_bridges():
                self._settled(self._oracle.best)
            for _ in range(_ROUNDS):
                if not self._simplifier.round(PASSES):
                    break
        except OutOfBudget:
            self._say("no more is tried: this is the smallest so far")
        return self._oracle.best

    def guess(self) -> bool:
        """Whether what is suspected or hinted at fails alone: the whole need not have been judged, and is not.

        A result that is wrong says whose it is, so a census of the operators that it can depend on comes first.
        A wrong gradient does not: every operator may have had its part in it, so the census is halved.
        """
        everything = units(self._whole.graph)
        if len(everything) <= _FEW:
            return False
        depended_on = cone.units_of(self._whole.graph, everything, self._hints.results) if self._hints.results else []
        try:
            return bool(
                self._wrong_alone(depended_on)
                or self._suspected(everything, self._whole)
                or self._hinted(everything)
                or (self._whole.wrong_gradients and self._census(everything, len(everything) // 2))
            )
        except OutOfBudget:
            return False

    # --- bodies of higher-order operators -------------------------------------------------------------------------

    def _without_bodies(self) -> None:
        """Higher-order operators replaced by what is in their bodies, where that still fails."""
        while True:
            candidates = bodies.inlined(self._whole)
            if not candidates:
                return
            self._say("trying the bodies of higher-order operators in their place")
            chosen = next((c for c in candidates if self._oracle.fails(c)), None)
            if chosen is None:
                return
            self._start_from(chosen)

    def _start_from(self, case: Case) -> None:
        self._facts = from_graph(case).known_better(self._facts)
        self._whole = case
        self._oracle.accept(case)

    def _with_one_block(self) -> None:
        """Block masks first: the lists of a mask of many blocks contradict every smaller function."""
        while True:
            fewer = block_masks.propose(self._oracle.best)
            chosen = next((c for c in fewer if self._oracle.fails(c)), None)
            if chosen is None:
                return
            self._oracle.accept(chosen)

    def _inside_bodies(self) -> None:
        """Fewer operators within each body that is left."""
        for path in bodies.paths(self._oracle.best.graph):
            inside = bodies.units_in(self._oracle.best.graph, path)
            if not inside:
                continue
            self._say(f"searching among {len(inside)} operators of {'.'.join(path)}")
            whole = self._oracle.best

            def test(sets: Sequence[Collection[Unit]], whole: Case = whole, path: bodies.Path = path) -> list[bool]:
                return self._judged([bodies.keep_inside(whole, path, _names(chosen)) for chosen in sets])

            search.minimise(inside, test, width=self._width)

    # --- operators ------------------------------------------------------------------------------------------------

    def _fewer_operators(self) -> None:
        everything = self._in_cone(units(self._whole.graph))
        if len(everything) <= 1:
            return
        guessed = everything if len(everything) <= _FEW else self._guess(everything)
        if guessed:
            self._search(guessed, bypass=False)
        else:
            self._search(self._cut(everything), bypass=True)

    def _with_bridges(self) -> bool:
        """Whether fewer do where what is between two that are needed gives way to a bridge from one to the other."""
        before = self._oracle.best
        everything = units(before.graph)
        hangs = before.failure is not None and before.failure.kind is Kind.HANG  # each that fails is waited for
        if len(everything) < _WORTH_BRIDGING or hangs or has_levels(before.graph):
            return False
        facts = from_graph(before).known_better(self._facts)

        def kept(chosen: Collection[Unit]) -> Case | None:
            try:
                return keep_only(before, _names(chosen), facts, bridge=True) if chosen else None
            except CannotDrop:
                return None

        self._say(f"searching among {len(everything)} operators, with bridges for those between")
        search.minimise(everything, lambda sets: self._judged([kept(chosen) for chosen in sets]), width=self._width)
        return self._oracle.best is not before

    def _in_cone(self, everything: list[Unit]) -> list[Unit]:
        """Those that the wrong results can depend on, where they alone fail."""
        chosen = cone.units_of(self._whole.graph, everything, self._hints.results)
        if not 0 < len(chosen) < len(everything):
            return everything
        self._say(f"trying {_operators(len(chosen))} that the wrong results depend on")
        return chosen if self._fails(chosen) else everything

    def _search(self, chosen: list[Unit], *, bypass: bool) -> None:
        """`chosen` fails, with values bypassed or cut as said; the other way is tried where that fails too."""
        for way in (bypass, not bypass):
            if len(chosen) < 2 or (way is not bypass and not self._test([chosen], way)[0]):
                return
            self._say(f"searching among {len(chosen)} operators")
            chosen = search.minimise(chosen, lambda sets, w=way: self._test(sets, w), width=self._width)  # type: ignore[misc]

    def _guess(self, everything: Sequence[Unit]) -> list[Unit]:
        """A set of operators that fails and is small, or nothing."""
        chosen = self._suspected(everything, self._oracle.best) or self._hinted(everything)
        return chosen or self._census(everything, len(everything) - 1)

    def _census(self, everything: Sequence[Unit], most: int) -> list[Unit]:
        """One operator of each kind, and of them as few as fail."""
        kinds = guess.kinds(self._whole.graph, everything, self._facts)
        if not 1 < len(kinds) <= most:
            return []
        self._say(f"trying one operator of each of {len(kinds)} kinds")
        return self._halved(kinds) if self._fails(kinds) else []

    def _wrong_alone(self, everything: Sequence[Unit]) -> list[Unit]:
        """The first operator, one of each kind, whose own result is wrong."""
        kinds = guess.kinds(self._whole.graph, everything, self._facts)
        census = self._kept(kinds, False) if 1 < len(kinds) <= len(everything) // 2 else None
        if census is None:
            return []
        self._say(f"trying one operator of each of {len(kinds)} kinds")
        if not self._judged([census])[0]:
            return []
        wrong = set(self._wrong_results(census))
        return next(([unit] for unit in kinds if not unit.isdisjoint(wrong) and self._fails([unit])), [])

    def _suspected(self, everything: Sequence[Unit], failing: Case) -> list[Unit]:
        """Where it begins in a failing Case, with as much of what is before that as it needs."""
        graph = self._whole.graph
        for node in self._suspects(failing):
            before = [guess.before(graph, everything, node, levels) for levels in (0, 1, 2, 4)]
            # What writes to memory that it reads is not before it: where there is none, the cone is what is before it.
            depends = cone.units_of(graph, everything, [node]) if any(n.name == node for n in graph.nodes) else []
            tried: list[list[Unit]] = []
            for chosen in [*before, *([depends] if len(depends) <= len(everything) // 2 else [])]:
                if not 0 < len(chosen) < len(everything) or chosen in tried:
                    continue
                self._say(f"trying {node} " + (f"and {_operators(len(chosen) - 1)} with it" if tried else "alone"))
                if self._fails(chosen):
                    return chosen
                tried.append(chosen)
        return []

    def _hinted(self, everything: Sequence[Unit]) -> list[Unit]:
        """What the error names, or the failing kernel, where that fails."""
        graph = self._whole.graph
        for suspect in guess.named(graph, everything, self._hints.named):
            self._say(f"trying {self._hints.named} alone")
            if self._fails([suspect]):
                return [suspect]
        spoken = guess.noted(graph, everything, self._hints.noted)
        if 0 < len(spoken) < len(everything):
            kinds = guess.kinds(graph, spoken, self._facts)
            self._say(f"trying {_operators(len(kinds))} that the failing kernel names")
            if self._fails(kinds):
                return self._halved(kinds)
            if len(kinds) < len(spoken) and self._fails(spoken):
                return spoken
        return []

    def _halved(self, suspects: Sequence[Unit]) -> list[Unit]:
        weights = [guess.suspicion(self._whole.graph, unit) for unit in suspects]
        return guess.halved(suspects, weights, self._fails)

    def _fails(self, chosen: Sequence[Unit]) -> bool:
        """With what the others gave as inputs: each operator as it was, alone."""
        return self._test([chosen], False)[0]

    def _cut(self, everything: Sequence[Unit]) -> list[Unit]:
        """The shortest failing prefix, then its latest failing start."""
        self._say(f"cutting {len(everything)} operators from the end, then from the start")
        end = search.shortest_prefix(len(everything), lambda n: self._test([everything[:n]], True)[0])
        chosen = list(everything[:end])
        size = search.shortest_prefix(len(chosen), lambda n: self._test([chosen[-n:]], True)[0])
        return chosen[-size:]

    def _test(self, sets: Sequence[Collection[Unit]], bypass: bool) -> list[bool]:
        return self._judged([self._kept(chosen, bypass) for chosen in sets])

    def _judged(self, cases: Sequence[Case | None]) -> list[bool]:
        results = iter(self._oracle.fail([case for case in cases if case is not None]))
        return [case is not None and next(results) for case in cases]

    def _kept(self, chosen: Collection[Unit], bypass: bool) -> Case | None:
        names = _names(chosen)
        if not names:
            return None
        try:
            return keep_only(self._whole, names, self._facts, bypass=bypass)
        except CannotDrop:
            return None


def _names(chosen: Collection[Unit]) -> frozenset[str]:
    return frozenset().union(*chosen) if chosen else frozenset()


def counted(case: Case) -> str:
    return _operators(operators(case.graph))


def _operators(count: int) -> str:
    return f"{count} operator{'s' * (count != 1)}"
