"""ATen operators by their public names: torch.relu instead of torch.ops.aten.relu.default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Node, Op
from torchsleuth.case.model import Case

_METHODS = frozenset("view expand repeat item clone contiguous new_zeros new_ones new_full new_empty".split())
_LIKE = {"_to_copy": "to", "convert_element_type": "to", "_unsafe_view": "view", "reshape": "reshape"}
_PRIMS = {"rev": "torch.flip"}
_FUNCTIONAL = frozenset(
    "gelu silu elu leaky_relu hardtanh hardswish hardsigmoid mish softplus glu embedding avg_pool2d pad".split()
)


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
    words = node.target.split(".")
    if node.op is not Op.CALL_FUNCTION or words[:2] != ["torch", "ops"] or len(words) != 5:
        return None
    room, name = words[2], words[3]
    if room not in ("aten", "prims"):
        return None
    if name in _LIKE or name in _METHODS or (name.endswith("_") and not name.startswith("_")):
        return replace(node, op=Op.CALL_METHOD, target=_LIKE.get(name, name))
    if room == "prims":
        return replace(node, target=_PRIMS[name]) if name in _PRIMS else None
    if name == "slice" and words[4] == "Tensor":
        return _slice(node)
    if name == "_softmax" or name == "_log_softmax":
        return replace(node, target=f"torch.{name[1:]}", args=node.args[:2])
    if name.startswith("_"):
        return None
    return replace(node, target=f"torch.nn.functional.{name}" if name in _FUNCTIONAL else f"torch.{name}")


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
