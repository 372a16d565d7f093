"""Dynamo fails to trace two forward-mode Jacobians of a product with a number."""

import torch


def energy(t: torch.Tensor) -> torch.Tensor:
    return (0.5 * t).pow(3).sum()


hessian = torch.compile(torch.func.jacfwd(torch.func.jacfwd(energy)), backend="eager")
print(hessian(torch.ones(2, dtype=torch.float64)))
