"""Coupled logistic maps: a chaotic recurrence, in which each step doubles the rounding errors of the one before."""

import torch


def step(x):
    x = 3.99 * x * (1 - x)
    return 0.9 * x + 0.1 * x.mean()


torch.manual_seed(0)
x = y = torch.rand(3000)
compiled = torch.compile(step)
for _ in range(60):
    x, y = compiled(x), step(y)
assert torch.allclose(x, y, atol=1e-2), "the orbits differ"
