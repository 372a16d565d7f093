"""flex_attention with one block that covers everything: so its mask may become simpler, and its lists are no data.

The lists of a block mask are made of its function.  A smaller function, other sizes or made lists would be a mask that
contradicts itself; of one block, of which the function is asked at every place, all of these are legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Input, Role, Storage, Tensor
from torchsleuth.case.program.higher_order import FLEX_ATTENTION
from torchsleuth.reduce.edit import tidy

_WHOLE = 1 << 30  # what torch takes for the size of a block where there is no block mask
_COUNTS, _INDICES = (2, 6), (3, 7)  # of the columns for each row, and of the rows for each column


def propose(case: Case) -> Iterator[Case]:
    for node in case.graph.nodes:
        if node.target == FLEX_ATTENTION and len(node.args) > 4 and _has_lists(node.args[4]):
            yield from _with_one_block(case, node)


def _has_lists(blocks: Arg) -> bool:
    if not isinstance(blocks, (tuple, list)) or len(blocks) < 13 or _WHOLE in blocks[-3:-1]:
        return False
    return all(isinstance(blocks[i], Ref) for i in (*_COUNTS, *_INDICES))


def _with_one_block(case: Case, node: Node) -> Iterator[Case]:
    blocks = list(node.args[4])
    fills = {blocks[i].name: "ones" for i in _COUNTS} | {blocks[i].name: "zeros" for i in _INDICES}
    given = {n.name: value for n, value in zip(case.graph.placeholders, case.inputs, strict=True)}
    if not all(isinstance(given.get(name), Tensor) for name in fills):
        return  # made inside the graph
    storages = list(case.storages)

    def whole(name: str, value: Input) -> Input:
        if name not in fills or not isinstance(value, Tensor):
            return value
        storages.append(Storage(0))
        shape = _shape(fills[name])
        plain = replace(value, shape=shape, stride=(1,) * len(shape), offset=0, storage=len(storages) - 1)
        return replace(plain, fill=fills[name], literal=(), dynamic=(), role=Role.ARGUMENT, low=None, high=None)

    inputs = tuple(whole(name, value) for name, value in given.items())
    kept = {0: 1, 1: 1, **{i: blocks[i] for i in (*_COUNTS, *_INDICES)}}
    lists = [kept.get(i) for i in range(len(blocks) - 3)]
    args = (*node.args[:4], (*lists, _WHOLE, _WHOLE, blocks[-1]), *node.args[5:])
    nodes = [replace(n, args=args) if n.name == node.name else _reshaped(n, fills) for n in case.graph.nodes]
    graph = replace(case.graph, nodes=tuple(nodes))
    yield tidy(replace(case, graph=graph, inputs=inputs, storages=tuple(storages)))


def _shape(fill: str) -> tuple[int, ...]:
    return (1, 1, 1) if fill == "ones" else (1, 1, 1, 1)


def _reshaped(node: Node, fills: dict[str, str]) -> Node:
    if node.op is not Op.PLACEHOLDER or node.name not in fills or not isinstance(node.value, Value):
        return node
    shape = _shape(fills[node.name])
    return replace(node, value=replace(node.value, shape=shape, stride=(1,) * len(shape)))
