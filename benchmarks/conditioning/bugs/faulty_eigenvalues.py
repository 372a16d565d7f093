"""A backend that gets tanh wrong by a tenth, before eigenvalues that are close to each other."""

import torch

from torchsleuth.backends import faulty


def f(x):
    y = torch.eye(8) + 1e-3 * torch.tanh(x)
    return torch.linalg.eigvalsh(y + y.T)


torch.manual_seed(0)
x = torch.randn(8, 8)
compiled = torch.compile(f, backend=faulty("tanh", "accuracy", inner="inductor"))
assert (compiled(x) - f(x)).abs().max() < 1e-5
