"""AOTAutograd fails ahead of time: a tensor that is saved for the backward is modified, and no backward is run."""

import torch


@torch.compile(backend="aot_eager")
def step(x: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x) * rate
    rate.add_(1)
    return y


print(step(torch.ones(3, requires_grad=True), torch.ones(3)))
