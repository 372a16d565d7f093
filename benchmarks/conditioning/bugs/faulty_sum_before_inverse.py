"""A backend that gets sums wrong by a tenth, in an ill-conditioned inverse."""

import torch

from torchsleuth.backends import faulty


def f(x):
    n = torch.arange(6.0)
    scale = torch.exp(x).sum()
    return torch.linalg.inv(scale / (n[:, None] + n + 1))


torch.manual_seed(0)
x = torch.randn(50)
compiled = torch.compile(f, backend=faulty("sum", "accuracy", inner="inductor"))
torch.testing.assert_close(compiled(x), f(x), rtol=1e-2, atol=1.0)
