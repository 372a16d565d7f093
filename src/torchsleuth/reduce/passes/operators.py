"""One operator or region fewer: after other passes, what was needed before may no longer be."""

from __future__ import annotations

from collections.abc import Iterator

from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import CannotDrop, keep_only
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.units import units


def propose(case: Case) -> Iterator[Case]:
    everything = units(case.graph)
    if len(everything) < 2:
        return
    facts = from_graph(case)
    for bypass in (True, False):
        for unit in reversed(everything):
            kept = frozenset().union(*(other for other in everything if other != unit))
            try:
                yield keep_only(case, kept, facts, bypass=bypass)
            except CannotDrop:
                continue
