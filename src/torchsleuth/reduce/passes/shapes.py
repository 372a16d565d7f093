"""Small sizes: all at once, then size by size, with the constants that equal them; last, one dimension alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, inputs_of, leaves, map_args
from torchsleuth.case.model import Case, Input, Storage, Tensor
from torchsleuth.case.program.values import contiguous_stride
from torchsleuth.reduce.edit import is_floating

_MOST_ALONE = 8
_UNKNOWN = "unknown"  # a size that follows from the inputs in a way that is not known here: a symbol that nobody binds


def propose(case: Case) -> Iterator[Case]:
    given = {s for v in case.inputs if isinstance(v, Tensor) for s in v.shape if s > 2}
    sizes = sorted(given | set(_sizes_of_made(case.graph)), reverse=True)
    if not sizes:
        return
    yield _resized(case, dict.fromkeys(sizes, 2), constants=True)
    yield _resized(case, dict.fromkeys(sizes, 2), constants=False)
    if len(sizes) > 1:
        yield _resized(case, {s: 2 + i for i, s in enumerate(reversed(sizes))}, constants=True)
    for size in sizes:
        yield _resized(case, {size: 2}, constants=True)
        yield _resized(case, {size: 2}, constants=False)
        for small in _between(size):
            yield _resized(case, {size: small}, constants=True)
    for number, dim, size in _alike(case)[:_MOST_ALONE]:
        for small in sorted({2, max(2, size // 2)}):
            yield _with_one_resized(case, number, dim, small)


def _sizes_of_made(graph: Graph) -> Iterator[int]:
    """Of tensors that the graph makes of nothing: they stand in the call."""
    for node in graph.nodes:
        if node.is_call and node.value is not None and not any(inputs_of(node)):
            named = {leaf for leaf in leaves((node.args, dict(node.kwargs))) if type(leaf) is int}
            yield from (s for s in node.value.shape if isinstance(s, int) and s > 2 and s in named)


def _alike(case: Case) -> list[tuple[int, int, int]]:
    """Dimensions that have their size by chance, perhaps: another has the same."""
    dims = [
        (number, dim, size)
        for number, value in enumerate(case.inputs) if isinstance(value, Tensor)
        for dim, size in enumerate(value.shape) if size > 2
    ]  # fmt: skip
    count = Counter(size for *_, size in dims)
    return [(number, dim, size) for number, dim, size in dims if count[size] > 1]


def _between(size: int) -> Iterator[int]:
    """Sizes that a kernel may still need: the pass is asked again after each success, so halves lead anywhere."""
    if size >= 64:
        yield size // 8
    yield size // 2 if size > 5 else 3 if size > 3 else 1


def _with_one_resized(case: Case, number: int, dim: int, size: int) -> Case:
    tensor = case.inputs[number]
    assert isinstance(tensor, Tensor)
    old, shape = tensor.shape[dim], (*tensor.shape[:dim], size, *tensor.shape[dim + 1 :])
    smaller = replace(tensor, shape=shape, stride=_like(tensor, shape), offset=0, storage=len(case.storages))
    mine = case.graph.placeholders[number].name

    def in_range(value: Input) -> Input:
        if not isinstance(value, Tensor):
            return value
        low, high = _in_range(value, {old: size})
        return replace(value, low=low, high=high)

    def resized(node: Node) -> Node:
        if node.value is None or old not in node.value.shape or (node.op is Op.PLACEHOLDER and node.name != mine):
            return node
        was = node.value.shape
        now = (*was[:dim], size, *was[dim + 1 :]) if node.name == mine else [_UNKNOWN if s == old else s for s in was]
        return replace(node, value=replace(node.value, shape=tuple(now), stride=None))

    return replace(
        case,
        graph=replace(case.graph, nodes=tuple(map(resized, case.graph.nodes))),
        inputs=tuple(smaller if i == number else in_range(v) for i, v in enumerate(case.inputs)),
        storages=(*case.storages, Storage(0)),
    )


def _resized(case: Case, to: Mapping[int, int], *, constants: bool) -> Case:
    storages = list(case.storages)

    def smaller(tensor: Tensor) -> Tensor:
        shape = tuple(to.get(s, s) for s in tensor.shape)
        low, high = _in_range(tensor, to)
        tensor = replace(tensor, low=low, high=high)
        if shape == tensor.shape:
            return tensor
        storages.append(Storage(0))
        return replace(tensor, shape=shape, stride=_like(tensor, shape), offset=0, storage=len(storages) - 1)

    inputs = tuple(smaller(v) if isinstance(v, Tensor) else v for v in case.inputs)
    graph = resized_graph(case.graph, to, constants=constants)
    return replace(case, graph=graph, inputs=inputs, storages=tuple(storages))


def resized_graph(graph: Graph, to: Mapping[int, int], *, constants: bool) -> Graph:
    if constants:
        graph = replace(graph, nodes=tuple(_with_constants(n, to) for n in graph.nodes))
    return replace(graph, nodes=tuple(_as_large(n, to) for n in graph.nodes))


def _in_range(tensor: Tensor, to: Mapping[int, int]) -> tuple[int | float | None, int | float | None]:
    """The range of random whole numbers; those that may be places in what becomes smaller become smaller with it."""
    low, high = tensor.low, tensor.high
    if tensor.fill or is_floating(tensor.dtype) or type(low) is not int or type(high) is not int or low < 0:
        return low, high
    limit = min((small - 1 for size, small in to.items() if high < size), default=high)
    return (low, high) if limit >= high else (min(low, max(0, limit)), max(0, limit))


def _like(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in the same order of dimensions; an expanded dimension stays one."""
    order = sorted(range(len(shape)), key=lambda d: (-tensor.stride[d], d))
    plain = contiguous_stride(tuple(1 if tensor.stride[d] == 0 and tensor.shape[d] > 1 else shape[d] for d in order))
    stride = [0] * len(shape)
    for place, dim in enumerate(order):
        stride[dim] = 0 if tensor.stride[dim] == 0 and tensor.shape[dim] > 1 else plain[place]
    return tuple(stride)


def _with_constants(node: Node, to: Mapping[int, int]) -> Node:
    def put(leaf: Arg) -> Arg:
        return to.get(leaf, leaf) if type(leaf) is int else leaf

    if node.op in (Op.PLACEHOLDER, Op.OUTPUT):
        return node
    return replace(node, args=map_args(node.args, put), kwargs={k: map_args(v, put) for k, v in node.kwargs.items()})


def _as_large(node: Node, to: Mapping[int, int]) -> Node:
    """What is known of a node's value follows, as far as equal sizes are the same size: later edits look at it."""
    value = node.value
    if value is None:
        return node
    shape = tuple(to.get(s, s) if isinstance(s, int) else s for s in value.shape)
    return node if shape == value.shape else replace(node, value=replace(value, shape=shape, stride=None))
