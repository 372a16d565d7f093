"""Fewer outputs: one, or none where what the graph writes to its inputs is enough to see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg
from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import may_give_nothing, without_unread_picks


def propose(case: Case) -> Iterator[Case]:
    output = case.graph.output
    values = output.args[0] if output.args else ()
    if not isinstance(values, (list, tuple)) or not values:
        return
    fewer: list[tuple[Arg, ...]] = [()] if may_give_nothing(case) else []
    if len(values) > 1:
        fewer += [(v,) for v in values] + [tuple(v for j, v in enumerate(values) if j != i) for i in range(len(values))]
    for kept in fewer:
        nodes = (*case.graph.nodes[:-1], replace(output, args=(kept,)))
        yield replace(case, graph=without_unread_picks(replace(case.graph, nodes=nodes)))
