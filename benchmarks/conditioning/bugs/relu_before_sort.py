"""A wrong relu of Inductor's, before a sort with many ties."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def f(x):
    values, order = torch.relu(x).sort(stable=True)
    return values, order


torch.manual_seed(0)
x = torch.randn(400)
expected, got = f(x), torch.compile(f)(x)
raise SystemExit(0 if torch.equal(expected[1], got[1]) else 1)
