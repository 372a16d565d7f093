"""Inductor fails to compile the cumulative sum of a constant without dimensions."""

import torch


@torch.compile
def scale(x: torch.Tensor) -> torch.Tensor:
    step = torch.tensor(5.0).cumsum(0)
    return torch.sin(x) * step + 1


print(scale(torch.arange(4.0)))
