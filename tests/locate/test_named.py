"""The operator and the line that an error names by itself."""

from __future__ import annotations

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Graph, Node, Op, Source
from torchsleuth.case.model import Case, Level
from torchsleuth.locate import named


def failing_with(text: str) -> Failure:
    return Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("E"), text)


def case_of(*calls: tuple[str, int]) -> Case:
    nodes = (
        Node(f"n{i}", Op.CALL_FUNCTION, target, source=Source("m.py", line, "f", "code"))
        for i, (target, line) in enumerate(calls)
    )
    return Case(Level.ATEN, Graph(tuple(nodes)), ())


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("LoweringException: x\n  target: aten.relu.default\n  args[0]: y", "aten.relu.default"),
        ("While executing %r : call_function[target=torch.ops.aten.mm.default](args = ())", "aten.mm.default"),
        ("While executing call_function[target=operator.add](args = ())", "operator.add"),
        ("the target: of my life", None),
        ("nothing", None),
    ],
)
def test_the_operator(text: str, operator: str | None) -> None:
    assert named.operator_named(failing_with(text)) == operator


ORIGINAL = """RuntimeError: x
Original traceback:
  File "/home/me/train.py", line 12, in step
    y = model(x)
  File "/venv/lib/site-packages/torch/nn/functional.py", line 9, in relu
    return torch.relu(x)
"""


def test_the_users_line_is_the_innermost_that_is_no_librarys() -> None:
    assert named.line_named(failing_with(ORIGINAL)) == Source("/home/me/train.py", 12, "step", "y = model(x)")
    assert named.line_named(failing_with("nothing")) is None


FROM_USER_CODE = """Unsupported: x

from user code:
   File "/home/me/train.py", line 5, in energy
    return g(t)
           ^^^^
  File "/home/me/train.py", line 4, in g
    return 0.5 * u
           ^^^^^^^
  File "/venv/lib/site-packages/torch/nn/functional.py", line 9, in relu
    return torch.relu(x)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
  File "/home/me/other.py", line 1, in unrelated
    pass
"""


def test_dynamo_tells_the_line_too() -> None:
    assert named.line_named(failing_with(FROM_USER_CODE)) == Source("/home/me/train.py", 4, "g", "return 0.5 * u")


def test_the_line_of_an_operator_that_stands_once() -> None:
    case = case_of(("torch.ops.aten.relu.default", 3), ("torch.ops.aten.mm.default", 4))
    found = named.line_of("aten.relu.default", [case])
    assert found is not None
    assert found.line == 3


def test_nobody_knows_which_of_several_lines_it_was() -> None:
    assert named.line_of("aten.relu.default", [case_of(("aten.relu.default", 3), ("aten.relu.default", 4))]) is None
    assert named.line_of("aten.relu.default", [case_of(("aten.mm.default", 3))]) is None


def test_the_standard_library_is_nobodys_line() -> None:
    inside = 'from user code:\n   File "{}", line 141, in __exit__\n    next(self.gen)\n'
    python = "/usr/lib/python3.11/contextlib.py"
    assert named.line_named(failing_with(inside.format(python))) is None
    assert named.function_at(f"{python}:141 in __exit__") is None
    library = "/usr/lib/python3.11/site-packages/models/net.py"
    assert named.line_named(failing_with(inside.format(library))) == Source(library, 141, "__exit__", "next(self.gen)")
