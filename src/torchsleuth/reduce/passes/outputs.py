"""Fewer outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import without_unread_picks


def propose(case: Case) -> Iterator[Case]:
    output = case.graph.output
    values = output.args[0] if output.args else ()
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        return
    for kept in [(v,) for v in values] + [tuple(v for j, v in enumerate(values) if j != i) for i in range(len(values))]:
        nodes = (*case.graph.nodes[:-1], replace(output, args=(kept,)))
        yield replace(case, graph=without_unread_picks(replace(case.graph, nodes=nodes)))
