"""One operator or region fewer: after other passes, what was needed before may no longer be."""

from __future__ import annotations

from collections.abc import Iterator

from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import CannotDrop, keep_only
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.units import units

_FEW = 12  # operators: of so many, each is tried in every way


def propose(case: Case) -> Iterator[Case]:
    everything = units(case.graph)
    if len(everything) < 2:
        return
    facts = from_graph(case)
    for how in (_BYPASS, _CUT, *_OF_FEW) if len(everything) <= _FEW else (_BYPASS, _CUT):
        for unit in reversed(everything):
            kept = frozenset().union(*(other for other in everything if other != unit))
            try:
                yield keep_only(case, kept, facts, **how)
            except CannotDrop:
                continue


_BYPASS = {"bypass": True}
_CUT = {"bypass": False}
_OF_FEW = (
    {"bypass": True, "any_size": True},  # an input with flags of its own stays in the place of a part of it
    {"bypass": True, "other": 1},  # its second operand may be the one that is needed
    {"bypass": True, "other": 2},
)
