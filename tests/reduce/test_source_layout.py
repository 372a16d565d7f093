"""Blank lines of a script that was made smaller."""

from __future__ import annotations

import ast

from hypothesis import given, settings, strategies as st

from torchsleuth.reduce.source.layout import laid_out
from torchsleuth.reduce.source.shrink import count_lines, lines

UNPARSED = '''import torch
LOG = []

class Net(torch.nn.Module):

    def __init__(self):
        super().__init__()

        class Recorder:

            def note(self, name):
                LOG.append(name)
        self.recorder = Recorder

    @property
    def size(self):
        """Of it.

        In one number."""
        return 2

    def forward(self, x):
        self.recorder().note('block')
torch.compile(Net())(2)
'''

LAID_OUT = '''import torch

LOG = []

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()

        class Recorder:
            def note(self, name):
                LOG.append(name)

        self.recorder = Recorder

    @property
    def size(self):
        """Of it.

        In one number."""
        return 2

    def forward(self, x):
        self.recorder().note('block')

torch.compile(Net())(2)
'''


def test_functions_stand_apart_and_headers_do_not() -> None:
    assert laid_out(UNPARSED) == LAID_OUT
    assert laid_out(LAID_OUT) == LAID_OUT


STATEMENTS = [
    "import os",
    "x = 1",
    "def f():\n    def g():\n        return 1\n    return g",
    'text = """a\n\nb"""',
    "if x:\n    def h(): pass\nelse:\n    x = 2",
    "class C:\n    a = 1\n    def m(self): pass",
    "try:\n    x = 1\nfinally:\n\n    x = 2",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6))
def test_the_program_stays_the_same(chosen: list[str]) -> None:
    text = "\n\n\n".join(chosen) + "\n"
    assert ast.dump(ast.parse(laid_out(text))) == ast.dump(ast.parse(text))


PROGRAM = 'def f(x):\n    return "a\\\\b" + \'"""\'\n\nprint(f(1))\n'


def test_a_program_in_a_string_is_written_and_counted_as_its_lines() -> None:
    text = f"import torch\nexec({PROGRAM!r})\nsay('one\\n')\n"
    written = laid_out(text)
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(text))
    assert "\nprint(f(1))\n" in written
    assert "say('one\\n')" in written
    assert count_lines(text) == count_lines(written) == 6
    assert lines(text) == "6 lines"
