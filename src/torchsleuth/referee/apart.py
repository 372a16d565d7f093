"""A float64 result kept as how far it lies from another: all that is asked of it, in a fraction of its memory.

Errors are distances, and a distance needs few digits.
"""

from __future__ import annotations

import torch

from torchsleuth.referee.blocks import InParts, blocks, is_complex, part_of, row_of, size_of


class Apart(InParts):
    """What is asked about `value`, of the shape of `base`, with the digits that `dtype` has for the distance."""

    def __init__(self, value: torch.Tensor, base: torch.Tensor | InParts, dtype: torch.dtype) -> None:
        self.shape = base.shape
        self.is_complex = is_complex(base)
        self._base = row_of(base)
        self._unit = size_of(base) or 1.0
        most = torch.finfo(dtype).max
        width = 2 if self.is_complex else 1
        self._by = torch.empty(value.numel() * width, dtype=dtype, device=value.device)
        for start, (b, v) in blocks(base, value):
            # What is finite stays so, though it be too large: it must not look like the infinity that eager gave.
            alone = torch.where(v.isfinite(), (v / self._unit).clamp_(-most, most), v)
            self._by[start : start + v.numel()] = torch.where(b.isfinite(), (v - b) / self._unit, alone)

    def part(self, start: int, stop: int) -> torch.Tensor:
        base = part_of(self._base, start, stop)
        width = 2 if self.is_complex else 1
        by = self._by[start * width : stop * width].to(torch.float64).mul_(self._unit)
        return torch.where(base.isfinite(), base + by, by)
