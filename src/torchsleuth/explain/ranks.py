"""The processes of one program beside each other: ranks that compile different things wait for one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchsleuth.explain.break_text import Place
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.outcomes import is_not_known, outcome_of
from torchsleuth.explain.owners import Owners

_MOST_NAMED = 6  # operators


@dataclass(frozen=True)
class Rank:
    name: str
    compiles: int
    graphs: int
    breaks: int
    seconds: float


@dataclass(frozen=True)
class Unlike:
    """A function that not all processes compiled equally often."""

    place: Place
    compiles: tuple[int, ...]  # by each of the ranks, in their order


@dataclass(frozen=True)
class UnlikeGraphs:
    """A function of which the processes captured different graphs, though they compiled it equally often."""

    place: Place
    ops: tuple[int | None, ...]  # by each of the ranks, in their order; None: not known
    differences: tuple[str, ...]  # a sentence each


@dataclass(frozen=True)
class Comparison:
    """The processes beside each other; empty where there is nothing to compare."""

    ranks: tuple[Rank, ...] = ()
    unlike: tuple[Unlike, ...] = ()
    unlike_graphs: tuple[UnlikeGraphs, ...] = ()
    not_compared: tuple[str, ...] = ()  # a sentence each


def compare(compiles: Sequence[Compile], owners: Owners) -> Comparison:
    started = [c for c in compiles if c.started]
    names = _names(sorted({c.process for c in started}, key=_order))
    if len(names) < 2:
        return Comparison()
    ranks = []
    for process, name in names.items():
        mine = [c for c in started if c.process == process]
        graphs, breaks = sum(c.graphs for c in mine), sum(c.met is not None for c in mine)
        ranks.append(Rank(name, len(mine), graphs, breaks, sum(c.seconds for c in mine)))
    functions: dict[Place, dict[str, list[Compile]]] = {}
    for one in started:
        functions.setdefault(owners.of(one), {}).setdefault(one.process, []).append(one)
    unlike, graphs_unlike, not_compared = [], [], []
    for place, by in functions.items():
        counts = tuple(len(by.get(process, ())) for process in names)
        if len(set(counts)) > 1:
            unlike.append(Unlike(place, counts))
            continue
        unread = [name for process, name in names.items() if any(map(_is_unread, by[process]))]
        if unread:
            not_compared.append(f"the graphs of {place.function}: not known of {', '.join(unread)}")
        differences = _differences({names[p]: by[p] for p in names if not any(map(_is_unread, by[p]))})
        if differences:
            ops = tuple(_ops(by[process]) for process in names)
            graphs_unlike.append(UnlikeGraphs(place, ops, tuple(differences)))
    return Comparison(tuple(ranks), tuple(unlike), tuple(graphs_unlike), tuple(not_compared))


def without_compilations(compiles: Sequence[Compile], ranks: Mapping[str, str]) -> list[str]:
    """The ranks of which no compilation was seen although others compiled; `ranks`: by process number."""
    compiling = {ranks.get(c.process.partition(" ")[0]) for c in compiles if c.started}
    return sorted(set(ranks.values()) - compiling, key=lambda r: (len(r), r)) if compiling - {None} else []


def _is_unread(compile: Compile) -> bool:
    """Whether its graph, or what became of it, is not known."""
    return is_not_known(compile) or (bool(compile.graphs) and compile.operators is None)


def _ops(compiles: Sequence[Compile]) -> int | None:
    if any(map(_is_unread, compiles)):
        return None
    return sum(c.operators.number for c in compiles if c.operators is not None)


def _differences(by_name: Mapping[str, Sequence[Compile]]) -> list[str]:
    """How the others differ from the first, a sentence for each that does."""
    (first, expected), *others = by_name.items() if by_name else [("", [])]
    return [
        sentence for name, compiles in others if (sentence := _difference(first, expected, name, compiles)) is not None
    ]


def _difference(first: str, expected: Sequence[Compile], name: str, compiles: Sequence[Compile]) -> str | None:
    ours, theirs = _counts(expected), _counts(compiles)
    if more := theirs - ours:
        fewer = ours - theirs
        instead = f" in place of {_listed(fewer)}" if fewer else ""
        return f"{name} captured {_listed(more)}{instead}, which {first} did not"
    if fewer := ours - theirs:
        return f"{name} did not capture {_listed(fewer)}, which {first} did"
    if sum(c.graphs for c in expected) != sum(c.graphs for c in compiles):
        return f"{name} captured {sum(c.graphs for c in compiles)} graphs, {first} {sum(c.graphs for c in expected)}"
    if _orders(expected) != _orders(compiles):
        return f"{name} captured the same operators as {first} in another order, or in other graphs"
    if (was := outcome_of(expected)) is not (now := outcome_of(compiles)):
        return f"{name}: {now.value}; {first}: {was.value}"
    return None


def _counts(compiles: Sequence[Compile]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for compile in compiles:
        for name, number in compile.operators.counts if compile.operators is not None else ():
            counts[name] += number
    return counts


def _orders(compiles: Sequence[Compile]) -> list[str]:
    return [c.operators.order for c in compiles if c.operators is not None]


def _listed(counts: Counter[str]) -> str:
    named = [name if number == 1 else f"{name} ({number} times)" for name, number in sorted(counts.items())]
    more = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} other operators" if more > 0 else "")


def _order(process: str) -> tuple[int, int]:
    number, _, rank = process.partition(" rank ")
    return (int(rank) if rank.isdigit() else 10**9, int(number) if number.isdigit() else 0)


def _names(found: Sequence[str]) -> dict[str, str]:
    """`rank 0`, or the process's number where it has none or is not the only one with it."""
    ranks = {process: process.partition(" rank ")[2] for process in found}
    often = Counter(ranks.values())
    return {
        process: f"rank {rank}" if rank and often[rank] == 1 else f"process {process}"
        for process, rank in ranks.items()
    }
