"""The user's code, cut out of its modules, does the same in a namespace of its own."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from torchsleuth.backends import faulty
from torchsleuth.case.carry import Carried, carry_object, carry_objects, carry_operator, carry_triton_kernel

Write = Callable[..., ModuleType]
_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules and import the last one; names are taken back afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(source: str, **others: str) -> ModuleType:
        for name, text in others.items():
            path = tmp_path / (name.replace("__", "/", 1) + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))
        name = f"mine{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def revive(carried: Carried) -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(carried.source, space)
    return eval(carried.name, space)


def alone(carried: Carried) -> Any:
    assert carried.stands_alone, carried.why_not
    assert carried.why_not == ""
    return revive(carried)


def in_fresh_process(carried: Carried, then: str) -> str:
    command = [sys.executable, "-I", "-c", f"{carried.source}\nimport torch\n{textwrap.dedent(then)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# --- slicing a module ---------------------------------------------------------------------------------------------


def test_a_function_with_what_it_needs_and_nothing_else(write: Write) -> None:
    mine = write(
        """
        import math, os
        import torch
        import torch.nn.functional as F

        SCALE = 2.5
        UNUSED = 1

        def helper(x):
            return F.relu(x) * SCALE  # kept as written

        def unrelated(x):
            return os.getcwd()

        print("side effect")

        def f(x):
            return helper(x) + math.pi

        f(torch.ones(1))
        """
    )
    carried = carry_object(mine.f)
    assert carried.source == textwrap.dedent(
        """\
        import math
        import torch.nn.functional as F


        SCALE = 2.5


        def helper(x):
            return F.relu(x) * SCALE  # kept as written


        def f(x):
            return helper(x) + math.pi
        """
    ).replace("F\n\n\nSCALE", "F\n\nSCALE")
    assert carried.imports == ("math", "torch")
    assert carried.name == "f"
    assert torch.equal(alone(carried)(torch.ones(2)), mine.f(torch.ones(2)))


def test_names_are_bound_as_they_were_when_read(write: Write) -> None:
    mine = write(
        """
        x = [1]
        y = x + [2]
        x = [10]

        def total():
            return sum(y) + sum(x)
        """
    )
    assert alone(carry_object(mine.total))() == mine.total() == 13


def test_rebinding_that_builds_on_itself(write: Write) -> None:
    mine = write(
        """
        names = ["a"]
        names = names + ["b"]
        names += ["c"]

        def f():
            return names
        """
    )
    assert alone(carry_object(mine.f))() == ["a", "b", "c"]


def test_tables_are_filled_as_the_module_fills_them(write: Write) -> None:
    mine = write(
        """
        TABLE = {}
        ORDER = []
        OTHER = {}

        def register(name):
            def deco(fn):
                TABLE[name] = fn
                return fn
            return deco

        @register("filed")
        def filed():
            return 9

        TABLE["a"] = 1
        TABLE.update(b=2)
        for key in ("c", "d"):
            TABLE[key] = 3
        ORDER.append("z")
        OTHER["a"] = 1
        for epoch in range(2):
            print("training")
            ORDER.clear()

        def f(key):
            return TABLE[key], len(ORDER)
        """
    )
    carried = carry_object(mine.f)
    assert [alone(carried)(key) for key in "abcd"] == [(1, 1), (2, 1), (3, 1), (3, 1)]
    assert alone(carried)("filed")[0]() == 9
    assert "OTHER" not in carried.source
    assert "training" not in carried.source  # a block that does more than fill the table is the program's own


def test_names_defined_inside_if_and_try(write: Write) -> None:
    mine = write(
        """
        import torch
        try:
            import a_module_that_is_not_there as extra
        except ImportError:
            extra = None
        if torch.__version__ == "0":
            def pick(x):
                return x - 1
        else:
            def pick(x):
                return x + 1

        def f(x):
            return pick(x) if extra is None else extra.go(x)
        """
    )
    assert alone(carry_object(mine.f))(1) == 2


def test_what_the_program_computed_once_is_carried_as_its_value(write: Write) -> None:
    mine = write(
        """
        import argparse
        import os
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--scale", type=float, default=3.0)
        args = parser.parse_args([])
        DEBUG = os.environ.get("A_FLAG_THAT_IS_UNSET") == "1"
        DTYPE = getattr(torch, "float64")
        LIMIT = 1e3

        def f(x):
            return x.to(DTYPE) * args.scale if not DEBUG and LIMIT else x
        """
    )
    carried = carry_object(mine.f)
    assert "os.environ" not in carried.source
    assert "LIMIT = 1e3" in carried.source
    assert alone(carried)(torch.ones(1)).tolist() == [3.0]
    assert alone(carried)(torch.ones(1)).dtype == torch.float64


def test_classes_with_bases_and_decorators(write: Write) -> None:
    mine = write(
        """
        from dataclasses import dataclass
        import functools

        class Base:
            factor = 2
            def go(self, x):
                return x * self.factor

        @dataclass
        class Mine(Base):
            shift: int = 1
            def __call__(self, x):
                return self.go(x) + self.shift

            class Inner:
                value = 7

        def lazily(fn):
            @functools.wraps(fn)
            def wrapper(*args):
                return fn(*args) + 1
            return wrapper

        @lazily
        def wrapped(x):
            return x
        """
    )
    assert alone(carry_object(mine.Mine))(4)(3) == 10
    assert alone(carry_object(mine.Mine.Inner)).value == 7
    assert alone(carry_object(mine.Mine.go))(mine.Mine(), 3) == 6
    assert alone(carry_object(mine.wrapped))(1) == 2
    assert alone(carry_object(mine.wrapped.__wrapped__))(1) == 1


def test_lazy_annotations_cost_no_import(write: Write) -> None:
    mine = write(
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        import numpy as np
        from torch import Tensor
        if TYPE_CHECKING:
            from nowhere import Nothing

        def f(x: Tensor, y: np.ndarray | Nothing = None) -> Tensor:
            return x
        """,
    )
    carried = carry_object(mine.f)
    assert carried.source.startswith("from __future__ import annotations\n")
    assert carried.imports == ("torch",)
    assert alone(carried)(3) == 3


def test_imports_are_reduced_to_what_is_used(write: Write) -> None:
    mine = write(
        """
        import torch
        import torch.nn
        import torch._dynamo, os, sys
        from torch.nn import Linear, ReLU as R
        from math import *

        def f(x):
            return torch._dynamo.is_compiling() or R()(x) + floor(1.5)
        """
    )
    carried = carry_object(mine.f)
    lines = ["from math import floor", "import torch._dynamo", "from torch.nn import ReLU as R"]
    assert carried.source.splitlines()[:3] == lines
    assert alone(carried)(torch.ones(1)).item() == 2


# --- the user's other modules -------------------------------------------------------------------------------------


def test_other_modules_of_the_users_are_cut_open(write: Write) -> None:
    mine = write(
        """
        from helpers import scale as by, twice
        import helpers
        import pack.deep as deep
        import pack.other
        from pack import shared

        def f(x):
            return by(twice(x)) + helpers.shift(x) + deep.down(x) + pack.other.K + shared(x)
        """,
        helpers="""
        FACTOR = 3
        JUNK = open
        def scale(x): return x * FACTOR
        def twice(x): return 2 * x
        def shift(x): return x + 1
        def unused(x): return x
        """,
        pack____init__="from .deep import shared\n",
        pack__deep="""
        from . import other
        def down(x): return -x * other.K
        def shared(x): return x * 100
        """,
        pack__other="K = 5\n",
    )
    carried = carry_object(mine.f)
    assert carried.imports == ("types",)
    assert "JUNK" not in carried.source
    assert "unused" not in carried.source
    assert alone(carried)(2) == mine.f(2) == 12 + 3 - 10 + 5 + 200


def test_one_name_with_two_meanings_does_not_stand_alone(write: Write) -> None:
    mine = write(
        """
        from other_one import g
        SIZE = 1
        def f(): return SIZE + g()
        """,
        other_one="SIZE = 2\ndef g(): return SIZE\n",
    )
    carried = carry_object(mine.f)
    assert not carried.stands_alone
    assert carried.why_not == "two modules mean different things by SIZE"


def test_what_it_needs_from_outside_is_named(write: Write) -> None:
    mine = write(
        """
        import numpy as np
        import helper_two

        def third_party(x):
            return np.asarray(x)

        def inside(x):
            import numpy
            return numpy.asarray(x)

        def bare_module(x):
            return getattr(helper_two, "x")

        def beside_its_file():
            return open(__file__)
        """,
        helper_two="x = 1\n",
    )
    carried = carry_object(mine.third_party)
    assert (carried.stands_alone, carried.why_not) == (False, "it needs the module numpy")
    assert carried.imports == ("numpy",)
    assert revive(carried)([1, 2]).tolist() == [1, 2]
    assert carry_object(mine.third_party, alone=("torch", "numpy")).stands_alone
    assert carry_object(mine.inside).why_not == "it needs the module numpy"
    assert carry_object(mine.bare_module).why_not == "it needs the module helper_two"
    assert "__file__" in carry_object(mine.beside_its_file).why_not


def test_a_name_that_nothing_defines(write: Write) -> None:
    mine = write("globals()['made'] = object()\nglobals()['plain'] = 4\ndef f(): return made\ndef g(): return plain\n")
    assert "defines made" in carry_object(mine.f).why_not
    assert alone(carry_object(mine.g))() == 4


# --- scripts ------------------------------------------------------------------------------------------------------


def test_a_script_run_as_main(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            FACTOR = 2
            def backend(gm, inputs):
                return gm.forward if FACTOR * extra else None
            class Callable_:
                def __call__(self, gm, inputs):
                    return backend(gm, inputs)
            if __name__ == "__main__":
                extra = 5
                ran = torch.ones(1)
                print("training")
            """
        )
    )
    space = runpy.run_path(str(path), run_name="__main__")
    carried = carry_object(space["backend"])
    assert "training" not in carried.source
    assert "ran" not in carried.source.replace("return", "")
    assert "__main__" not in carried.source
    revived = alone(carried)
    assert torch.compile(torch.sin, backend=revived)(torch.zeros(1)).item() == 0
    assert callable(alone(carry_object(space["Callable_"]))())


def test_source_that_cannot_be_read() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(x): return x", space)
    carried = carry_object(space["f"])
    assert carried == Carried("", (), "", False, "the source of __main__ cannot be read")


def test_cells_of_a_notebook() -> None:
    space: dict[str, Any] = {"__name__": "__main__", "In": ["", "K = 3", "%magic", "def f(x): return x * K"]}
    for cell in (space["In"][1], space["In"][3]):
        exec(cell, space)
    assert alone(carry_object(space["f"]))(2) == 6


# --- shapes of objects --------------------------------------------------------------------------------------------


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


# --- operators ----------------------------------------------------------------------------------------------------

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
