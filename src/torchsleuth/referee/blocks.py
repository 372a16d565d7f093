"""Tensors compared a part at a time, in float64: the whole would take many times the memory of the graph itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

ELEMENTS = 2**17  # of a part: 1 MB


class InParts(ABC):
    """What is no tensor, and can be read as if it were one of float64, a part at a time."""

    shape: torch.Size
    is_complex: bool

    @abstractmethod
    def part(self, start: int, stop: int) -> torch.Tensor:
        """The elements from `start` to `stop`, in one row of real numbers."""


def blocks(*values: torch.Tensor | InParts) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """The same elements of each as float64, and the place of the first; a complex number is two of them."""
    rows = [row_of(v) for v in values]
    width = 2 if is_complex(values[0]) else 1
    count = values[0].shape.numel()
    for start in range(0, count, ELEMENTS):
        yield start * width, [part_of(row, start, min(start + ELEMENTS, count)) for row in rows]


def row_of(value: torch.Tensor | InParts) -> torch.Tensor | InParts:
    return value if isinstance(value, InParts) else value.reshape(-1)


def part_of(row: torch.Tensor | InParts, start: int, stop: int) -> torch.Tensor:
    return row.part(start, stop) if isinstance(row, InParts) else doubles(row[start:stop]).reshape(-1)


def is_complex(value: torch.Tensor | InParts) -> bool:
    return value.is_complex if isinstance(value, InParts) else value.dtype.is_complex


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


def size_of(value: torch.Tensor | InParts) -> float:
    """Root mean square of what is finite."""
    found = Rms()
    for _, (values,) in blocks(value):
        found.add(values[values.isfinite()])
    return found.value


def holds_nan(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        floating = value.dtype.is_floating_point or value.dtype.is_complex
        return floating and any(bool(values.isnan().any()) for _, (values,) in blocks(value))
    return isinstance(value, (float, complex)) and value != value


def shape_of(value: torch.Tensor | InParts) -> tuple[int, ...]:
    """Of its real numbers."""
    return (*value.shape, 2) if is_complex(value) else tuple(value.shape)


def unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return tuple(reversed(found))


def element(value: torch.Tensor | InParts, place: tuple[int, ...]) -> float:
    """The number at a place of `shape_of(value)`."""
    if isinstance(value, InParts):
        at, which = (place[:-1], place[-1]) if value.is_complex else (place, 0)
        index = ravel(at, value.shape)
        return float(value.part(index, index + 1)[which])
    if value.dtype.is_complex:
        return float(torch.view_as_real(value[place[:-1]].to(torch.complex128))[place[-1]])
    return float(value[place])


def ravel(place: Sequence[int], shape: Sequence[int]) -> int:
    index = 0
    for one, size in zip(place, shape, strict=True):
        index = index * size + one
    return index
