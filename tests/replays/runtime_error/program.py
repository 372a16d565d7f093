"""Inductor's code fails when it runs: an argument of a branch of torch.cond is bound wrongly."""

import torch


def even(t: torch.Tensor) -> torch.Tensor:
    columns = t[:, ::2]
    index = torch.tensor([[0, 0, 1], [1, 1, 2]])
    return columns.scatter_add(1, index, torch.ones(2, 3))


def odd(t: torch.Tensor) -> torch.Tensor:
    return t[:, 1::2] - 3.0


@torch.compile
def choose(x: torch.Tensor) -> torch.Tensor:
    y = torch.cond(torch.tensor(True), even, odd, (torch.cos(x),))
    return y.sum(1)


print(choose(torch.arange(12.0).reshape(2, 6)))
