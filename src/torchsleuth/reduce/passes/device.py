"""Everything on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Made, Node, map_args
from torchsleuth.case.model import Case, Tensor

_KINDS = ("cuda", "xpu", "mps", "hpu", "mtia")
_CPU = Made("torch.device", ("cpu",))


def propose(case: Case) -> Iterator[Case]:
    moved = replace(
        case,
        graph=replace(case.graph, nodes=tuple(_node(n) for n in case.graph.nodes)),
        inputs=tuple(_tensor(v) if isinstance(v, Tensor) else v for v in case.inputs),
        constants=tuple(map(_tensor, case.constants)),
    )
    if moved != case:
        yield moved


def _elsewhere(device: object) -> bool:
    return isinstance(device, str) and device.split(":")[0] in _KINDS


def _tensor(tensor: Tensor) -> Tensor:
    return replace(tensor, device="cpu") if _elsewhere(tensor.device) else tensor


def _node(node: Node) -> Node:
    value = node.value
    if value is not None and _elsewhere(value.device):
        value = replace(value, device="cpu")
    kwargs = {k: _argument(v) for k, v in node.kwargs.items()}
    return replace(node, args=tuple(map(_argument, node.args)), kwargs=kwargs, value=value)


def _argument(value: Arg) -> Arg:
    if isinstance(value, Made):
        away = value.maker == "torch.device" and value.args and _elsewhere(value.args[0])
        return _CPU if away else Made(value.maker, tuple(map(_argument, value.args)))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_argument, value))
    return map_args(value, lambda leaf: "cpu" if _elsewhere(leaf) else leaf)
