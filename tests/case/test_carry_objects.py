"""Partials, closures, lambdas, instances: carried by their source, or refused by name."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import pytest
import torch
from carry_helpers import Write, alone

from torchsleuth.backends import faulty
from torchsleuth.case.carry import Carried, carry_object, carry_objects


@pytest.fixture
def shapes(write: Write) -> ModuleType:
    return write(
        """
        import functools
        import torch

        def add(x, y, z=0):
            return x + y + z

        def outer(scale, helper):
            def inner(x):
                return helper(x) * scale
            return inner

        def counting():
            count = 0
            def tick():
                nonlocal count
                count += 1
                return count
            return tick

        def recursive():
            def fact(n):
                return 1 if n < 2 else n * fact(n - 1)
            return fact

        def plain_nested():
            def nested(x):
                return add(x, 1)
            return nested

        def wrapped_nested():
            @torch.no_grad()
            def nested(x):
                return x * 2
            return nested

        @torch.no_grad()
        def wrapped(x):
            return x * 2

        def local_class(step):
            class Local:
                def __init__(self, x):
                    self.x = x
                def __call__(self, y):
                    return self.x + y + step
            return Local

        class Backend:
            def __init__(self, scale):
                self.scale = scale
                self.helper = add
            def __call__(self, x):
                return self.helper(x, 1) * self.scale
            def method(self, x):
                return x - self.scale

        made = Backend(7)
        f = lambda x: add(x, 10)
        pair = [lambda x: x + 1, lambda x: x * 2]
        loop = [lambda x, i=i: x + i for i in range(3)]

        def lambda_over(k):
            return lambda x: x * k
        partial = functools.partial(add, 1, z=5)
        """
    )


def test_partials(shapes: ModuleType) -> None:
    carried = carry_object(functools.partial(shapes.add, 1, z=5))
    assert carried.name == "functools.partial(add, 1, z=5)"
    assert alone(carried)(2) == 8
    assert carry_object(shapes.partial).name == "functools.partial(add, 1, z=5)"
    assert alone(carry_object(functools.partial(torch.nn.functional.relu, inplace=False)))(torch.ones(1)).item() == 1


def test_closures(shapes: ModuleType) -> None:
    inner = shapes.outer(2.0, functools.partial(shapes.add, 1))
    assert alone(carry_object(inner))(3) == inner(3) == 8
    tick = alone(carry_object(shapes.counting()))
    assert (tick(), tick()) == (1, 2)
    assert alone(carry_object(shapes.recursive()))(5) == 120
    carried = carry_object(shapes.plain_nested())
    assert carried.name == "nested"
    assert carried.source.endswith("def nested(x):\n    return add(x, 1)\n")
    assert alone(carried)(1) == 2
    local = shapes.local_class(10)
    assert alone(carry_object(local))(1)(2) == 13


def test_decorated_by_torch(shapes: ModuleType) -> None:
    for function in (shapes.wrapped, shapes.wrapped_nested()):
        carried = carry_object(function)
        assert "@torch.no_grad()" in carried.source
        assert not alone(carried)(torch.ones(1, requires_grad=True)).requires_grad


def test_a_captured_tensor_cannot_be_carried(shapes: ModuleType) -> None:
    carried = carry_object(shapes.outer(torch.ones(3), shapes.add))
    assert (carried.source, carried.stands_alone) == ("", False)
    assert "torch.Tensor" in carried.why_not


def test_lambdas(shapes: ModuleType) -> None:
    assert carry_object(shapes.f).name == "f"
    assert alone(carry_object(shapes.f))(1) == 11
    if sys.version_info >= (3, 11):
        assert [alone(carry_object(one))(5) for one in shapes.pair] == [6, 10]
    else:
        assert "cannot be told apart" in carry_object(shapes.pair[0]).why_not
    assert [alone(carry_object(one))(5) for one in shapes.loop] == [5, 6, 7]
    assert alone(carry_object(shapes.lambda_over(3)))(5) == 15


def test_instances(shapes: ModuleType) -> None:
    assert carry_object(shapes.made).name == "made"
    assert alone(carry_object(shapes.made))(1) == 14
    rebuilt = carry_object(shapes.Backend(3))
    assert alone(rebuilt)(1) == 6
    assert alone(carry_object(shapes.Backend(3).method))(10) == 7
    assert "torch.nn" in carry_object(torch.nn.Linear(2, 2)).why_not


def test_what_torch_has_is_imported() -> None:
    assert carry_object(torch.relu) == Carried("import torch\n", ("torch",), "torch.relu", True)
    assert carry_object(torch.nn.ReLU).name == "torch.nn.modules.activation.ReLU"
    assert carry_object(torch.float16).name == "torch.float16"


def test_what_comes_with_torch_may_stay(write: Write) -> None:
    mine = write("from functorch.compile import make_boxed_func\ndef f(x): return make_boxed_func(x)\n")
    assert carry_object(mine.f).stands_alone


def test_what_a_package_has_does_not_stand_alone() -> None:
    numpy = pytest.importorskip("numpy")
    carried = carry_object(numpy.ndarray)
    assert (carried.name, carried.stands_alone, carried.why_not) == (
        "numpy.ndarray",
        False,
        "it needs the package numpy",
    )


def test_an_object_that_brings_its_own_source() -> None:
    backend = faulty("relu", "accuracy", inner="eager")
    carried = carry_object(backend)
    assert carried.imports == ("torch",)
    assert not torch.allclose(torch.compile(torch.relu, backend=alone(carried))(torch.ones(2)), torch.ones(2))


def test_several_objects_share_one_source(shapes: ModuleType) -> None:
    first, broken, last = carry_objects([shapes.add, torch.ones(1), shapes.f])
    assert first.source == last.source
    assert first.source.count("def add") == 1
    assert (first.name, last.name) == ("add", "f")
    assert not broken.stands_alone
    assert first.stands_alone
