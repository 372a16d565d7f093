"""ATen operators by their public names: torch.relu instead of torch.ops.aten.relu.default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Node, Op
from torchsleuth.case.model import Case
from torchsleuth.operators.names import parse
from torchsleuth.operators.public import public_name


def propose(case: Case) -> Iterator[Case]:
    places = [i for i, n in enumerate(case.graph.nodes) if _public(n) is not None]
    if len(places) > 1:
        yield _renamed(case, places)
    for place in places:
        yield _renamed(case, [place])


def _renamed(case: Case, places: list[int]) -> Case:
    nodes = list(case.graph.nodes)
    for place in places:
        nodes[place] = _public(nodes[place]) or nodes[place]
    return replace(case, graph=replace(case.graph, nodes=tuple(nodes)))


def _public(node: Node) -> Node | None:
    """The same call as a person would write it; whether it means the same is for the Judge to say."""
    operator = parse(node.target)
    if node.op is not Op.CALL_FUNCTION or not (operator.namespace and operator.overload):
        return None
    if operator.qualified == "aten::slice" and operator.overload == "Tensor":
        return _slice(node)
    public = public_name(operator)
    if public is None:
        return None
    op = Op.CALL_METHOD if public.is_method else Op.CALL_FUNCTION
    return replace(node, op=op, target=public.name, args=node.args[: public.most_arguments])


def _slice(node: Node) -> Node | None:
    source, *rest = node.args
    defaults: list[Arg] = [0, None, None, None]
    dim, start, stop, step = rest + defaults[len(rest) :]
    if type(dim) is not int or dim < 0 or node.kwargs:
        return None
    if type(stop) is int and stop >= 2**62:
        stop = None
    last: Arg = slice(None if start == 0 else start, stop, None if step == 1 else step)
    index = last if dim == 0 else (*(slice(None),) * dim, last)
    return replace(node, target="operator.getitem", args=(source, index))
