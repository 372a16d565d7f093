"""Operators that give a new value instead of changing one: later readers read the new value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Node, Op, Ref, map_args
from torchsleuth.case.model import Case
from torchsleuth.operators.names import parse
from torchsleuth.operators.properties import is_in_place
from torchsleuth.operators.python_operators import IN_PLACE

# Their results do not depend on what they change, or they change no values.
_KEPT = frozenset({"copy_", "fill_", "zero_", "requires_grad_"})


def propose(case: Case) -> Iterator[Case]:
    places = [i for i, n in enumerate(case.graph.nodes) if _plain(n) is not None]
    if len(places) > 1:
        whole = case
        for place in places:
            whole = _changed(whole, place)
        yield whole
    for place in places:
        yield _changed(case, place)


def _plain(node: Node) -> str | None:
    """The name of the operator that does not change its input, by torch's own rule for names."""
    if not node.is_call or not node.args or not isinstance(node.args[0], Ref):
        return None
    found = parse(node.target)
    if node.op is Op.CALL_MODULE or found.namespace or not is_in_place(node.target):
        return None
    if found.is_python_operator:
        return f"operator.{IN_PLACE[found.name]}" if found.name in IN_PLACE else None
    return None if found.name.startswith("_") or found.name in _KEPT else node.target[:-1]


def _changed(case: Case, place: int) -> Case:
    node = case.graph.nodes[place]
    old, target = node.args[0], _plain(node)
    assert target is not None

    def put(leaf: Arg) -> Arg:
        return Ref(node.name) if leaf == old else leaf

    later = [
        replace(n, args=map_args(n.args, put), kwargs={k: map_args(v, put) for k, v in n.kwargs.items()})
        for n in case.graph.nodes[place + 1 :]
    ]
    nodes = (*case.graph.nodes[:place], replace(node, target=target), *later)
    return replace(case, graph=replace(case.graph, nodes=nodes))
