"""Tensors compared a part at a time, in float64: the whole would take many times the memory of the graph itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

ELEMENTS = 2**17  # of a part: 1 MB


def blocks(*tensors: torch.Tensor) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """The same elements of each as float64, and the place of the first; a complex number is two of them."""
    flat = [t.reshape(-1) for t in tensors]
    width = 2 if tensors[0].dtype.is_complex else 1
    for start in range(0, flat[0].numel(), ELEMENTS):
        yield start * width, [doubles(f[start : start + ELEMENTS]).reshape(-1) for f in flat]


def doubles(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor.to(torch.complex128))
    return tensor.to(torch.float64)


@dataclass
class Rms:
    """The root of the mean square of all that is added."""

    total: float = 0.0
    count: int = 0

    def add(self, values: torch.Tensor) -> None:
        self.total += float(values.square().sum())
        self.count += values.numel()

    @property
    def value(self) -> float:
        return math.sqrt(self.total / self.count) if self.count else 0.0


@dataclass
class Largest:
    """The place of the largest of all that are added; of equals, the first."""

    place: int = 0
    value: float = -1.0

    def add(self, start: int, values: torch.Tensor) -> bool:
        """Whether it is among these."""
        at = int(values.argmax())
        if not float(values[at]) > self.value:
            return False
        self.place, self.value = start + at, float(values[at])
        return True


@dataclass
class Counted:
    """How many are true of all that are added, and the place of the first."""

    count: int = 0
    place: int = 0

    def add(self, start: int, mask: torch.Tensor) -> None:
        count = int(mask.sum())
        if count and not self.count:
            self.place = start + int(mask.to(torch.uint8).argmax())
        self.count += count


def size_of(tensor: torch.Tensor) -> float:
    """Root mean square of what is finite."""
    found = Rms()
    for _, (values,) in blocks(tensor):
        found.add(values[values.isfinite()])
    return found.value


def holds_nan(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        floating = value.dtype.is_floating_point or value.dtype.is_complex
        return floating and any(bool(values.isnan().any()) for _, (values,) in blocks(value))
    return isinstance(value, (float, complex)) and value != value


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of its real numbers."""
    return (*tensor.shape, 2) if tensor.dtype.is_complex else tuple(tensor.shape)


def unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return tuple(reversed(found))


def element(tensor: torch.Tensor, place: tuple[int, ...]) -> float:
    """The number at a place of `shape_of(tensor)`."""
    if tensor.dtype.is_complex:
        return float(torch.view_as_real(tensor[place[:-1]].to(torch.complex128))[place[-1]])
    return float(tensor[place])
