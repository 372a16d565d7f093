"""Operators that give a new value instead of changing one: later readers read the new value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Node, Op, Ref, map_args
from torchsleuth.case.model import Case

_OPERATORS = {f"operator.i{name}": f"operator.{name}" for name in "add sub mul truediv floordiv mod pow matmul".split()}
_OPERATORS |= {f"operator.i{name}": f"operator.{name}_" for name in ("and", "or")} | {"operator.ixor": "operator.xor"}


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
    target = node.target.replace("_operator.", "operator.")
    if target in _OPERATORS:
        return _OPERATORS[target]
    if node.op is Op.CALL_MODULE or target.startswith("torch.ops."):
        return None
    word = target.rpartition(".")[2]
    if word.endswith("_") and not word.startswith("_") and word not in ("copy_", "fill_", "zero_", "requires_grad_"):
        return target[:-1]
    return None


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
