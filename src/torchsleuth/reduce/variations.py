"""Propose other sizes and dtypes for a reduced Case, one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torchsleuth.case import user_kernels
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program.values import contiguous_stride, is_contiguous
from torchsleuth.reduce.edit import is_floating

_OTHER_SIZES = (5, 7)
_DTYPES = ("torch.float32", "torch.float64", "torch.bfloat16", "torch.float16")


@dataclass(frozen=True)
class Variation:
    """One size or dtype changed."""

    what: str
    case: Case


def proposed(case: Case) -> Iterator[Variation]:
    sizes = sorted({s for v in case.inputs if isinstance(v, Tensor) for s in v.shape if s > 1})
    if user_kernels.calls_one(case.graph):
        sizes = []  # a kernel of the user's trusts the sizes that it is told
    for size in sizes[:2]:
        new = next(n for n in _OTHER_SIZES if n not in sizes) if not set(_OTHER_SIZES) <= set(sizes) else size + 1
        changed = _other_size(case, size, new)
        if changed is not None:
            yield Variation(f"size {new} instead of {size}", changed)
    present = {v.dtype for v in case.inputs if isinstance(v, Tensor) and is_floating(v.dtype)}
    if len(present) == 1 and present <= set(_DTYPES):
        (now,) = present
        for dtype in [d for d in _DTYPES if d != now][:2]:
            yield Variation(dtype.removeprefix("torch."), _other_dtype(case, now, dtype))


def _other_size(case: Case, old: int, new: int) -> Case | None:
    """Every dimension of that size; None where strides or shared memory would have to change with it."""
    inputs = []
    for value in case.inputs:
        if isinstance(value, Tensor) and old in value.shape:
            shared = sum(isinstance(v, Tensor) and v.storage == value.storage for v in case.inputs) > 1
            if shared or not is_contiguous(value):
                return None
            shape = tuple(new if size == old else size for size in value.shape)
            value = replace(value, shape=shape, stride=contiguous_stride(shape))
        inputs.append(value)
    return replace(case, inputs=tuple(inputs))


def _other_dtype(case: Case, old: str, new: str) -> Case:
    inputs = tuple(replace(v, dtype=new) if isinstance(v, Tensor) and v.dtype == old else v for v in case.inputs)
    return replace(case, inputs=inputs)
