"""The operator at which a failure of several shows: where nothing else names one, it is the last that computes."""

from __future__ import annotations

from torchsleuth.case.ir import Graph, Node, picked_from
from torchsleuth.operators.properties import computes


def last_computing(graph: Graph) -> Node | None:
    """Views and markers of regions only lead to it; a graph of nothing else has the last of those that give a value."""
    calls = [picked_from(g, n) or n for g in graph.all_graphs() for n in g.nodes if n.is_call and n.value is not None]
    computing = [n for n in calls if computes(n.target)]
    found = computing or calls
    return found[-1] if found else None
