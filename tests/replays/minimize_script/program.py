"""A script that another tool may have written: a planted compile-error in a few operators."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.sin(x) @ w).cos() + 1


torch.compile(f)(torch.ones(2, 3), torch.ones(3, 2))
