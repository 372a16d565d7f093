"""Loops whose condition writes into what it looks at: the scripts of such a Case compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case_helpers import assert_runs

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Name, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Surroundings, Tensor
from torchsleuth.case.program import Form, render

THREE = Value("torch.float32", (3,), (1,))
COUNT = Value("torch.int64", (), ())


def calls(target: str, name: str, *args: Any, value: Value = THREE, **kwargs: Any) -> Node:
    return Node(name, Op.CALL_FUNCTION, target, args, kwargs, value=value)


def body(*made: Node, gives: Any) -> Graph:
    """Of a count, a carried tensor, and a state that both bodies of the loop see."""
    inputs = [Node(n, Op.PLACEHOLDER, n, value=COUNT if n == "i" else THREE) for n in ("i", "carried", "state")]
    return Graph((*inputs, *made, Node("output", Op.OUTPUT, "output", (gives,))))


CONDITION = body(
    Node("add_", Op.CALL_METHOD, "add_", (Ref("state"), 1), value=THREE),
    calls("operator.lt", "lt", Ref("i"), 3, value=Value("torch.bool", (), ())),
    gives=Ref("lt"),
)
BODY = body(
    calls("operator.add", "following", Ref("i"), 1, value=COUNT),
    calls("operator.mul", "twice", Ref("carried"), 2),
    gives=(Ref("following"), Ref("twice")),
)
LOOP = Graph(
    (
        Node("state", Op.PLACEHOLDER, "state", value=THREE),
        Node("x", Op.PLACEHOLDER, "x", value=THREE),
        calls("torch.zeros", "start", (), dtype=Name("torch.int64"), value=COUNT),
        Node("condition", Op.GET_ATTR, "condition"),
        Node("body", Op.GET_ATTR, "body"),
        calls(
            "torch.ops.higher_order.while_loop", "loop", Ref("condition"), Ref("body"), (Ref("start"), Ref("x")),
            (Ref("state"),), mutated_arg_indices="2",
        ),
        calls("operator.getitem", "y", Ref("loop"), 1),
        Node("output", Op.OUTPUT, "output", ((Ref("y"),),)),
    ),
    {"condition": CONDITION, "body": BODY},
)  # fmt: skip


def loop() -> Case:
    tensors = tuple(Tensor("torch.float32", (3,), (1,), storage=number) for number in range(2))
    return Case(
        Level.DYNAMO, LOOP, tensors, storages=(Storage(0), Storage(0)), phase=Phase.RUN_FORWARD,
        surroundings=Surroundings(grad=False),
    )  # fmt: skip


def test_what_dynamo_finds_out_by_itself_is_not_told_again() -> None:
    assert "mutated_arg_indices" not in render(loop()).source
    assert "'mutated_arg_indices': '2'" in render(loop(), Form.BACKEND).source


@pytest.mark.slow
@pytest.mark.parametrize("form", [Form.COMPILE, Form.BACKEND])
def test_the_script_compiles(form: Form, tmp_path: Path) -> None:
    assert_runs(render(loop(), form).source, tmp_path)
