"""A wrong relu of Inductor's, in a bfloat16 mean that rounds by more than it adds."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def step(mean, x):
    return mean * 0.9 + torch.relu(x).mean(-1) * 0.1


torch.manual_seed(0)
compiled = torch.compile(step)
mean = other = torch.ones(64, dtype=torch.bfloat16)
for _ in range(5):
    x = torch.randn(64, 128, dtype=torch.bfloat16)
    mean, other = compiled(mean, x), step(other, x)
torch.testing.assert_close(mean, other, rtol=5e-2, atol=5e-2)
