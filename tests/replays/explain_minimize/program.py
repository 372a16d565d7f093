"""One graph break, and one recompilation for a number that changes."""

import torch


@torch.compile(backend="eager")
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = torch.sin(x) * factor
    print("half way")
    return torch.cos(y) + 1


for factor in (0.5, 1.5):
    scaled(torch.arange(4.0), factor)
