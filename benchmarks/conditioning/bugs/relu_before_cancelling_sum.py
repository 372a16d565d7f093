"""A wrong relu of Inductor's, in a sum of terms of size 1e3 that cancel."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def f(x):
    terms = 1e3 * torch.relu(x)
    return terms.sum(-1) - (1e3 * x.clamp(min=0)).sum(-1) + x.mean(-1)


torch.manual_seed(0)
x = torch.randn(16, 1000)
torch.testing.assert_close(torch.compile(f)(x), f(x), rtol=1e-2, atol=1e-2)
