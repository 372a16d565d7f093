"""`x.data = y` in a graph: Tensor.set_, and a function that Dynamo defines where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from capture_helpers import take
from case_helpers import assert_runs

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Tensor
from torchsleuth.case.operator_names import LOWERS_VERSION, SETS_DATA
from torchsleuth.case.program import render
from torchsleuth.reduce.needed import parts

FOUR = Value("torch.float32", (4,), (1,))


def called(name: str, target: str, *args: Any) -> Node:
    return Node(name, Op.CALL_FUNCTION, target, args, value=FOUR)


def assigned() -> Case:
    nodes = (
        Node("w", Op.PLACEHOLDER, "w", value=FOUR),
        Node("y", Op.PLACEHOLDER, "y", value=FOUR),
        called("twice", "operator.mul", Ref("y"), 2),
        called("set_", SETS_DATA, Ref("w"), Ref("twice")),
        called("lower", LOWERS_VERSION, Ref("set_")),
        called("sin", "torch.sin", Ref("set_")),
        Node("output", Op.OUTPUT, "output", ((Ref("sin"),),)),
    )
    inputs = tuple(Tensor("torch.float32", (4,), (1,), storage=n) for n in range(2))
    return Case(Level.DYNAMO, Graph(nodes), inputs, storages=(Storage(0), Storage(1)), phase=Phase.RUN_FORWARD)


def test_dynamo_still_writes_it_so_and_it_comes_back() -> None:
    weight = torch.nn.Parameter(torch.ones(4))

    def masked(x: torch.Tensor) -> torch.Tensor:
        weight.data *= 0.5
        return x * weight

    taken = take(masked, torch.ones(4), aot=False)
    assert {SETS_DATA, LOWERS_VERSION} <= taken.targets()
    assert not taken.unknown
    assert weight.tolist() == [0.5] * 4


def test_a_script_assigns_as_the_program_did(tmp_path: Path) -> None:
    text = render(assigned()).source
    assert "    w.data = twice\n    set_ = w\n" in text
    assert "version" not in text
    assert_runs(text, tmp_path)


def test_what_is_needed_is_said_in_words() -> None:
    names = [part.name for part in parts(assigned())]
    assert names[:3] == ["operator.mul", "an assignment to .data", "torch.sin"]
