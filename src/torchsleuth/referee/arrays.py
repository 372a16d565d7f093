"""Numpy's arrays and scalars as tensors, where torch has their dtype; nothing of it is imported that was not before."""

from __future__ import annotations

import sys
from typing import Any

import torch


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def kind_of_array(value: Any) -> str:
    return f"numpy.{type(value).__name__}"


def as_tensor(value: Any) -> torch.Tensor | None:
    """A copy; None where torch has no such dtype."""
    numpy = sys.modules["numpy"]
    array = numpy.array(value)  # a copy: contiguous, writable
    if array.dtype.kind in "mM":  # points in time and spans of it
        array = array.view("int64")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError:
        return None


def elements(value: Any) -> list[tuple[str, Any]] | None:
    """Objects, texts and fields of an array, by what a path goes on with; None where it has none of these."""
    numpy = sys.modules["numpy"]
    if value.dtype.names is not None:
        return [(f"[{name!r}]", value[name]) for name in value.dtype.names]
    if value.dtype.kind not in "OUS":
        return None
    if isinstance(value, numpy.generic):
        return [(".item()", value.item())]
    return [(f"[{', '.join(map(str, place))}]", value[place]) for place in numpy.ndindex(value.shape)]
