"""Keyword arguments and trailing constants that do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case import user_kernels
from torchsleuth.case.ir import Node, Ref, leaves
from torchsleuth.case.model import Case


def propose(case: Case) -> Iterator[Case]:
    for i, node in enumerate(case.graph.nodes):
        if not node.is_call or user_kernels.number_of(node) is not None:
            continue
        for simpler in _simpler(node):
            nodes = (*case.graph.nodes[:i], simpler, *case.graph.nodes[i + 1 :])
            yield replace(case, graph=replace(case.graph, nodes=nodes))


def _simpler(node: Node) -> Iterator[Node]:
    plain = {k: v for k, v in node.kwargs.items() if _holds_reference(v)}
    if len(plain) < len(node.kwargs):
        yield replace(node, kwargs=plain)
        if len(node.kwargs) - len(plain) > 1:
            for name in node.kwargs:
                if name not in plain:
                    yield replace(node, kwargs={k: v for k, v in node.kwargs.items() if k != name})
    if len(node.args) > 1 and not _holds_reference(node.args[-1]):
        yield replace(node, args=node.args[:-1])


def _holds_reference(value: object) -> bool:
    return any(isinstance(leaf, Ref) for leaf in leaves(value))
