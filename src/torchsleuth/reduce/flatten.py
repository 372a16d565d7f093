"""The graph that AOTAutograd hands to Inductor, as a program of its own: `torch.compile` over ATen operators.

Nothing is wrapped there any more: functorch levels, higher-order operators, autograd.Function, views and in-place
changes are plain operators, and a backward is a graph like any other, without the forward that led to it.
"""

from __future__ import annotations

from dataclasses import replace

from torchsleuth.case.failure import Phase
from torchsleuth.case.model import Case, Level, Scalar, Tensor


def flattened(inner: Case) -> Case | None:
    """`inner` (an ATen Case) as a Case of form `torch.compile`; None where an input has no place in such a program."""
    if inner.level is not Level.ATEN or not all(isinstance(v, (Tensor, Scalar)) for v in inner.inputs):
        return None
    surroundings = replace(inner.surroundings, autocast=(), grad=True, inference=False)
    phase = Phase.COMPILE_FORWARD if inner.phase.compiling else Phase.RUN_FORWARD
    return replace(inner, level=Level.DYNAMO, surroundings=surroundings, phase=phase, context={})
