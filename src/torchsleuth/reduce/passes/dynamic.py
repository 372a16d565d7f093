"""Dynamic dimensions become static: all at once, then symbol by symbol."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from torchsleuth.case.ir import Node, Op, Ref, Value, map_args
from torchsleuth.case.model import Case, Input, Scalar, Tensor


def propose(case: Case) -> Iterator[Case]:
    symbols = list(dict.fromkeys(_symbols(case)))
    if symbols:
        yield replace(_static(case, symbols), surroundings=replace(case.surroundings, dynamic=None))
    if len(symbols) > 1:
        yield from (_static(case, [symbol]) for symbol in symbols)


def _symbols(case: Case) -> Iterator[str]:
    """Sizes that are symbols or made of symbols, and numbers that are; a size that nobody named, by its place."""
    for node, value in zip(case.graph.placeholders, case.inputs, strict=True):
        if isinstance(value, Scalar) and value.symbol:
            yield value.symbol
        elif isinstance(value, Tensor):
            yield from (_size(node, dim) for dim in value.dynamic)


def _size(node: Node, dim: int) -> str:
    known = node.value.shape[dim] if node.value is not None and dim < len(node.value.shape) else None
    return known if isinstance(known, str) else f"{node.name}.{dim}"


def _static(case: Case, symbols: Collection[str]) -> Case:
    pairs = list(zip(case.graph.placeholders, case.inputs, strict=True))
    numbers = {n.name: v.value for n, v in pairs if isinstance(v, Scalar) and v.symbol in symbols}
    kept = [(n, _input(n, v, symbols)) for n, v in pairs if n.name not in numbers]
    nodes = [_node(n, numbers, symbols) for n in case.graph.nodes if n.name not in numbers]
    return replace(case, graph=replace(case.graph, nodes=tuple(nodes)), inputs=tuple(v for _, v in kept))


def _input(node: Node, value: Input, symbols: Collection[str]) -> Input:
    if not isinstance(value, Tensor):
        return value
    return replace(value, dynamic=tuple(d for d in value.dynamic if _size(node, d) not in symbols))


def _node(node: Node, numbers: dict[str, int | float | bool], symbols: Collection[str]) -> Node:
    def put(leaf: object) -> object:
        return numbers[leaf.name] if isinstance(leaf, Ref) and leaf.name in numbers else leaf

    value = node.value
    if value is not None and node.op is Op.PLACEHOLDER:
        shape = tuple(0 if s in symbols else s for s in value.shape)
        value = value if shape == value.shape else Value(value.dtype, shape, None, value.device)
    kwargs = {k: map_args(v, put) for k, v in node.kwargs.items()}
    return replace(node, args=map_args(node.args, put), kwargs=kwargs, value=value)
