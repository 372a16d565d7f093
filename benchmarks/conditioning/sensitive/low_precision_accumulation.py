"""A running mean in bfloat16: each step rounds by more than it adds."""

import torch


def step(mean, x):
    return mean * 0.99 + torch.tanh(x).mean(-1) * 0.01 + (x * 0.37).sin().mean(-1) * 0.01


torch.manual_seed(0)
compiled = torch.compile(step)
mean = other = torch.ones(64, dtype=torch.bfloat16)
for _ in range(40):
    x = torch.randn(64, 128, dtype=torch.bfloat16)
    mean, other = compiled(mean, x), step(other, x)
torch.testing.assert_close(mean, other, rtol=1e-3, atol=1e-3)
