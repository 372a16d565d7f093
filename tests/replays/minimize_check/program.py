"""A program that does not fail: a command says what is looked for in its graph."""

import torch


@torch.compile(backend="eager")
def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.sin(x) @ w).cos() + torch.exp(x).sum()


f(torch.ones(2, 3), torch.ones(3, 2))
