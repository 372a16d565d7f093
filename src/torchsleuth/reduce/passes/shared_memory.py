"""Smaller memory that several inputs look into: they keep sharing it, each at the same place in smaller units.

The pass on sizes gives each tensor that it makes smaller memory of its own, and a bug of aliasing inputs would be gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchsleuth.case.checks import itemsize
from torchsleuth.case.model import Case, Storage, Tensor
from torchsleuth.case.program.values import contiguous_stride, is_contiguous, span
from torchsleuth.reduce.passes.shapes import resized_graph


def propose(case: Case) -> Iterator[Case]:
    for number in range(len(case.storages)):
        group = {i: v for i, v in enumerate(case.inputs) if isinstance(v, Tensor) and v.storage == number}
        sizes = sorted({s for tensor in group.values() for s in tensor.shape if s > 2})
        if len(group) < 2 or not sizes or not all(_plain(tensor) for tensor in group.values()):
            continue
        for to in _smaller(sizes):
            for constants in (True, False):
                yield _resized(case, group, to, constants=constants)


def _plain(tensor: Tensor) -> bool:
    """Laid out like any other, and beginning where a row of it could: what its place becomes is plain then."""
    return bool(tensor.shape) and is_contiguous(tensor) and not (tensor.flags or tensor.unknown or tensor.dynamic)


def _smaller(sizes: list[int]) -> Iterator[dict[int, int]]:
    in_order = {size: 2 + i for i, size in enumerate(sizes)}  # a tensor that holds another still has room for it
    if any(small < size for size, small in in_order.items()):
        yield {size: min(size, small) for size, small in in_order.items()}
    for size in reversed(sizes):
        yield {size: 2}
        if size > 5:
            yield {size: size // 2}


def _resized(case: Case, group: Mapping[int, Tensor], to: Mapping[int, int], *, constants: bool) -> Case:
    number = len(case.storages)
    inputs = list(case.inputs)
    for place, tensor in group.items():
        inputs[place] = replace(_tensor(tensor, to), storage=number, fill="", literal=())
    changed = [value for value in inputs if isinstance(value, Tensor) and value.storage == number]
    room = max(span(tensor) * itemsize(tensor.dtype) for tensor in changed)
    graph = resized_graph(case.graph, to, constants=constants)
    return replace(case, graph=graph, inputs=tuple(inputs), storages=(*case.storages, Storage(room)))


def _tensor(tensor: Tensor, to: Mapping[int, int]) -> Tensor:
    shape = tuple(to.get(size, size) for size in tensor.shape)
    stride = contiguous_stride(shape)
    rest, offset = tensor.offset, 0
    for before, after in zip(tensor.stride, stride, strict=True):
        steps, rest = divmod(rest, before) if before else (0, rest)
        offset += steps * after
    return replace(tensor, shape=shape, stride=stride, offset=offset)
