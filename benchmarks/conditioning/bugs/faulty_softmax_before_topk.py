"""A backend that gets exp wrong by a tenth, before a topk."""

import torch

from torchsleuth.backends import faulty


def f(x):
    scores = torch.exp(x).sum(-1)
    return scores.topk(3).values


torch.manual_seed(0)
x = torch.randn(40, 30)
compiled = torch.compile(f, backend=faulty("exp", "accuracy"))
assert torch.allclose(compiled(x), f(x), rtol=1e-3)
