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


def flatten(value: Any, path: str) -> Iterator[Seen]:
    if isinstance(value, torch.Tensor):
        yield Seen(path, kept(value))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from flatten(one, f"{path}[{key!r}]")
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, one in zip(value._fields, value, strict=True):
            yield from flatten(one, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from flatten(one, f"{path}[{i}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from flatten(getattr(value, field.name), f"{path}.{field.name}")
    elif value is None or isinstance(value, (bool, int, float, complex)):
        yield Seen(path, value)


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy: what compiled code returns may be overwritten by its next call."""
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return plain.resolve_conj().resolve_neg().clone()
