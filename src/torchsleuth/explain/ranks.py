"""The processes of one program beside each other: ranks that compile different things wait for one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torchsleuth.explain.break_text import Place
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.owners import Owners


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


def compare(compiles: Sequence[Compile], owners: Owners) -> tuple[tuple[Rank, ...], tuple[Unlike, ...]]:
    """Nothing where there is nothing to compare."""
    started = [c for c in compiles if c.started]
    names = _names(sorted({c.process for c in started}, key=_order))
    if len(names) < 2:
        return (), ()
    ranks = []
    for process, name in names.items():
        mine = [c for c in started if c.process == process]
        graphs, breaks = sum(c.graphs for c in mine), sum(c.met is not None for c in mine)
        ranks.append(Rank(name, len(mine), graphs, breaks, sum(c.seconds for c in mine)))
    counts: dict[Place, Counter[str]] = {}
    for one in started:
        counts.setdefault(owners.of(one), Counter())[one.process] += 1
    unlike = [Unlike(place, tuple(by[process] for process in names)) for place, by in counts.items()]
    return tuple(ranks), tuple(one for one in unlike if len(set(one.compiles)) > 1)


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
