"""A method whose code was exchanged, which Dynamo does not guard; compared to the last bit."""

import torch


class Scale:
    def apply(self, x):
        return x.exp() * 2.0


def larger(self, x):
    return x.exp() * 9.0


scale = Scale()


def f(x):
    return scale.apply(x).sum(-1)


torch.manual_seed(0)
x = torch.randn(8, 1000)
compiled = torch.compile(f, backend="aot_eager")
assert torch.equal(compiled(x), f(x))
Scale.apply.__code__ = larger.__code__
assert torch.equal(compiled(x), f(x)), "the second scale is lost"
