"""The user's code, cut out of its modules, does the same in a namespace of its own."""

from __future__ import annotations

import runpy
import textwrap
from pathlib import Path
from typing import Any

import torch
from carry_helpers import Write, alone, revive

from torchsleuth.case.carry import Carried, carry_object

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
