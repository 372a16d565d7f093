"""What a run shows: tensors and numbers, each with the path by which a reader finds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Seen:
    path: str  # out["logits"][0]
    value: Any  # a tensor that nobody writes any more, a number, or None
    stride: tuple[int, ...] | None = None  # of the tensor as it was given


def flatten(value: Any, path: str, *, copied: bool = True) -> Iterator[Seen]:
    """Not `copied` is what nobody writes any more: it may be large."""
    if isinstance(value, torch.Tensor):
        stride = tuple(value.stride()) if value.layout is torch.strided else None
        yield Seen(path, kept(value) if copied else plain(value), stride)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from flatten(one, f"{path}[{key!r}]", copied=copied)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, one in zip(value._fields, value, strict=True):
            yield from flatten(one, f"{path}.{name}", copied=copied)
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from flatten(one, f"{path}[{i}]", copied=copied)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from flatten(getattr(value, field.name), f"{path}.{field.name}", copied=copied)
    elif value is None or isinstance(value, (bool, int, float, complex)):
        yield Seen(path, value)


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy: what compiled code returns may be overwritten by its next call."""
    return plain(tensor).clone()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Without gradients, lazy bits or a layout of its own."""
    dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
    return dense.resolve_conj().resolve_neg()
