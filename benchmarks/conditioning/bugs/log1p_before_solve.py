"""A wrong log1p of Inductor's, on the right side of a well-conditioned system."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def f(a, b):
    return torch.linalg.solve(a, torch.log1p(b.abs()))


torch.manual_seed(0)
a, b = torch.eye(16) + 0.1 * torch.randn(16, 16), torch.randn(16)
torch.testing.assert_close(torch.compile(f)(a, b), f(a, b))
