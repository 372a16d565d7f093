"""What of a script comes from the user: numbers as literals, and lines of their source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from findings_by_hand import a_finding, a_repro, a_result

from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Backend, Case, Code, Level, Storage, Surroundings, Tensor
from torchsleuth.case.program import render
from torchsleuth.write.own_data import OwnData, of_script
from torchsleuth.write.page_run import run_page
from torchsleuth.write.result import to_json


@pytest.mark.parametrize(
    ("text", "numbers", "nbytes"),
    [
        ("x = torch.tensor([[0.5, -1.5, 2.0], [1.0, 2.0, float('nan')]])", 6, 24),
        ("x = torch.tensor([1, 2, 3, 4, 5])", 5, 40),
        ("x = torch.tensor([True] * 3)", 0, 0),
        ("x = torch.tensor([True, False, True, False, True])", 5, 5),
        ("x = torch.tensor([1, 2, 3, 4, 5, 6], dtype=torch.float64)", 6, 48),
        ("x = f(a, torch.tensor([1, 2, 3, 4, 5, 6], dtype=torch.int8), [1, 2])", 6, 6),
        ("def f(x):\n    return x.index([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])", 10, 80),
        ("x = torch.tensor([0, 1])", 0, 0),
        ("x = torch.randn(2, 3).as_strided((2, 3, 4, 5), (60, 20, 5, 1))", 0, 0),
        ("x = [a, 1, 2, 3, 4, 5, 6, 7, 8, 9]", 0, 0),
        ('"""[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"""', 0, 0),
        ("x = (", 0, 0),
    ],
)
def test_large_literals_are_data_and_small_ones_are_not(text: str, numbers: int, nbytes: int) -> None:
    assert of_script(text) == OwnData(numbers, nbytes)


def test_the_phrases() -> None:
    assert OwnData().phrases == ()
    assert OwnData(1234, 4936, 1).phrases == (
        "holds 1,234 numbers of your data as literals", "holds 1 line of your source",
    )  # fmt: skip


def a_case(*, code: tuple[Code, ...] = (), backend: Backend | None = None, literal: tuple[float, ...] = ()) -> Case:
    value = Value("torch.float32", (8,), (1,))
    nodes = (
        Node("x", Op.PLACEHOLDER, "x", value=value),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=value),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    )
    tensor = Tensor("torch.float32", (8,), (1,), fill="literal" if literal else "", literal=literal)
    now = Surroundings(code=code, backend=backend or Backend())
    return Case(Level.DYNAMO, Graph(nodes), (tensor,), storages=(Storage(0),), surroundings=now)


OPERATOR = Code("operator mylib::foo", "foo", "def foo(x):\n\n    return x")
COMPILER = Code("backend", "compiler", "def compiler(gm, inputs):\n    return gm")


def test_a_rendered_script_counts_the_source_that_it_carries() -> None:
    assert render(a_case()).source_lines == 0
    assert render(a_case(code=(OPERATOR,))).source_lines == 2
    assert render(a_case(backend=Backend("compiler", False, code=COMPILER))).source_lines == 2
    ours = Code("switchboard", "apply_only", "from torchsleuth import x\nx()")
    assert render(a_case(code=(ours,))).source_lines == 0


def test_literals_of_a_case_are_counted_in_its_script() -> None:
    values = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    assert of_script(render(a_case(literal=values)).source) == OwnData(8, 32)
    assert of_script(render(a_case()).source) == OwnData()


@pytest.mark.parametrize(
    ("source", "lines", "beside", "said", "total"),
    [
        ("import torch\n", 0, 0, "form torch.compile, holds no data and no source of yours", 0),
        ("x = torch.tensor([1.5, 2, 3, 4, 5])\n", 0, 0, ", holds 5 numbers of your data as literals.", 20),
        ("import torch\n", 3, 0, "form torch.compile, holds 3 lines of your source.", 0),
        ("import torch\n", 0, 64, "form torch.compile, 64 bytes of your data in repro_data.pt beside it.", 64),
        (
            "x = torch.tensor([1.5, 2, 3, 4, 5])\n", 3, 64,
            "64 bytes of your data in repro_data.pt beside it, holds 5 numbers of your data as literals, "
            "holds 3 lines of your source.", 84,
        ),
    ],
)  # fmt: skip
def test_result_and_page_say_all_that_is_the_users(
    tmp_path: Path, source: str, lines: int, beside: int, said: str, total: int
) -> None:
    repro = replace(a_repro(tmp_path), source=source, source_lines=lines, data_bytes=beside)
    result = to_json(a_result(a_finding(tmp_path, repro=repro)), tmp_path)
    (tmp_path / "repro.py").write_text(source)
    assert result["failures"][0]["repro"]["data_bytes"] == total
    assert said in run_page(json.loads(json.dumps(result)), tmp_path)
