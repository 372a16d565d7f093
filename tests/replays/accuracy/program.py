"""Inductor gives wrong values: a copy into a slice takes its source after that was changed."""

import torch


def advance(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    dst[0:, :] = src[0:, :]
    src.add_(1)
    return torch.cos(src)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(3, 4), torch.arange(12.0).view(3, 4)


expected, found = rows(), rows()
advance(*expected)
torch.compile(advance)(*found)
torch.testing.assert_close(found, expected)
