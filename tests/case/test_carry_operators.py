"""Custom operators and Triton kernels, carried with all that registers them."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
from carry_helpers import Write, alone, in_fresh_process

from torchsleuth.case.carry import Carried, carry_object, carry_operator, carry_triton_kernel

NEW_STYLE = """
import torch
from torch import Tensor

NAME = "carrytest::{name}"

def _inner(x):
    return x * 3

@torch.library.custom_op(NAME, mutates_args=())
def foo(x: Tensor) -> Tensor:
    return _inner(x)

@foo.register_fake
def _(x):
    return torch.empty_like(x)

@foo.register_kernel("cuda")
def _(x):
    return _inner(x)

def setup(ctx, inputs, output):
    pass

def backward(ctx, grad):
    return grad * 3

foo.register_autograd(backward, setup_context=setup)

@torch.library.custom_op("carrytest::other", mutates_args=())
def other(x: Tensor) -> Tensor:
    return x.clone()

print("side effect")

def model(x):
    return torch.ops.carrytest.{name}(x) + foo(x)
"""

PROOF = """
x = torch.ones(2, requires_grad=True)
y = torch.compile({op}, backend="aot_eager", fullgraph=True)(x)
y.sum().backward()
print(y.tolist(), x.grad.tolist())
"""


def test_a_custom_op_with_all_its_registrations(write: Write) -> None:
    write(NEW_STYLE.format(name="foo"))
    carried = carry_operator("carrytest::foo")
    assert carried.name == "torch.ops.carrytest.foo"
    assert carried.stands_alone, carried.why_not
    assert carried.imports == ("torch",)
    assert "other" not in carried.source
    assert "side effect" not in carried.source
    assert carried.source.count("@foo.register") == 2
    assert in_fresh_process(carried, PROOF.format(op=carried.name)) == "[3.0, 3.0] [3.0, 3.0]"


def test_a_function_that_uses_an_operator_brings_it(write: Write) -> None:
    mine = write(NEW_STYLE.format(name="bar"))
    carried = carry_object(mine.model)
    assert "foo.register_autograd(backward, setup_context=setup)" in carried.source
    assert in_fresh_process(carried, PROOF.format(op=carried.name)) == "[6.0, 6.0] [6.0, 6.0]"


def test_an_operator_registered_by_name_from_two_modules(write: Write) -> None:
    write(
        """
        import torch
        import by_name

        @torch.library.register_fake("carrytest::by_name")
        def by_name_fake(x):
            return torch.empty_like(x)

        def by_name_backward(ctx, grad):
            return grad * 2

        torch.library.register_autograd("carrytest::by_name", by_name_backward)
        """,
        by_name="""
        import torch

        torch.library.define("carrytest::by_name", "(Tensor x) -> Tensor")

        @torch.library.impl("carrytest::by_name", "cpu")
        def by_name_cpu(x):
            return x * 2
        """,
    )
    carried = carry_operator("carrytest::by_name")
    assert carried.stands_alone, carried.why_not
    assert in_fresh_process(carried, PROOF.format(op=carried.name)) == "[2.0, 2.0] [2.0, 2.0]"


def test_the_older_library_style(write: Write) -> None:
    mine = write(
        """
        import torch
        from torch.library import Library, impl

        SPACE = "carryold"
        lib = Library(SPACE, "DEF")
        lib.define("foo(Tensor x) -> Tensor")
        lib.define("food(Tensor x) -> Tensor")

        def foo_cpu(x):
            return x + 5

        lib.impl("foo", foo_cpu, "CPU")

        @impl(lib, "foo", "Meta")
        def foo_meta(x):
            return torch.empty_like(x)

        @impl(lib, "food", "CPU")
        def food_cpu(x):
            return x
        """
    )
    carried = carry_operator("carryold::foo")
    assert mine.lib is not None
    assert carried.stands_alone, carried.why_not
    assert "food" not in carried.source
    proof = "print(torch.compile(torch.ops.carryold.foo, backend='aot_eager')(torch.ones(1)).tolist())"
    assert in_fresh_process(carried, proof) == "[6.0]"


def test_an_operator_registered_inside_a_function(write: Write) -> None:
    write(
        """
        import torch

        def set_up():
            torch.library.define("carryinside::foo", "(Tensor x) -> Tensor")
            torch.library.impl("carryinside::foo", "cpu", lambda x: x + 2)

        set_up()
        """
    )
    carried = carry_operator("carryinside::foo")
    assert in_fresh_process(carried, "print(torch.ops.carryinside.foo(torch.ones(1)).item())") == "3.0"


def test_an_operator_that_nobody_registers_in_python() -> None:
    carried = carry_operator("nowhere::foo")
    assert (carried.source, carried.stands_alone) == ("", False)
    assert "nowhere::foo" in carried.why_not
    assert carry_operator("aten::relu") == Carried("import torch\n", ("torch",), "torch.ops.aten.relu", True)


# --- Triton -------------------------------------------------------------------------------------------------------

FAKE_TRITON = """
class JITFunction:
    def __init__(self, fn):
        self.fn = fn
class Autotuner:
    def __init__(self, fn):
        self.fn = fn
jit = JITFunction
def autotune(**_):
    return Autotuner
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="the stand-in below would hide the real one")
def test_triton_kernels(write: Write) -> None:
    """Triton itself is not there on a CPU; what matters here is the shape of its objects."""
    mine = write(
        """
        import triton
        BLOCK = 16

        @triton.jit
        def helper(x):
            return x + BLOCK

        @triton.autotune(configs=[])
        @triton.jit
        def kernel(x):
            return helper.fn(x) * 2

        def make():
            @triton.jit
            def local(x):
                return helper.fn(x)
            return local
        """,
        triton=FAKE_TRITON,
    )
    carried = carry_triton_kernel(mine.kernel)
    assert carried.imports == ("triton",)
    assert carried.stands_alone, carried.why_not
    assert type(alone(carried)).__name__ == "Autotuner"
    assert alone(carried).fn.fn(1) == 34
    local = carry_triton_kernel(mine.make())
    assert "@triton.jit\ndef local" in local.source
    assert alone(local).fn(1) == 17
    assert not carry_triton_kernel(object()).stands_alone
