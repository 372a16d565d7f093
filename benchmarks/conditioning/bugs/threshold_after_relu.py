"""A wrong relu of Inductor's, before a comparison with 0 that the program makes itself."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def score(x):
    return torch.relu(x).sum(-1)


torch.manual_seed(0)
x = torch.randn(100, 3)
kept = [row for row, value in enumerate(torch.compile(score)(x).tolist()) if value > 0]
wanted = [row for row, value in enumerate(score(x).tolist()) if value > 0]
assert kept == wanted, f"{len(kept)} rows were kept, not {len(wanted)}"
