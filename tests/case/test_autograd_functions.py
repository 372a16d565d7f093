"""An autograd.Function in a graph is a class in a script; and names that a script uses itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_helpers import assert_runs

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Tensor
from torchsleuth.case.program import CannotRender, Form, render

FOUR = Value("torch.float32", (4,), (1,))
SAVED = {"non_differentiable_idx": [], "saved_for_backward_idx": [0]}


def given(*names: str) -> list[Node]:
    return [Node(name, Op.PLACEHOLDER, name, value=FOUR) for name in names]


def called(name: str, target: str, *args: Any) -> Node:
    return Node(name, Op.CALL_FUNCTION, target, args, value=FOUR)


def gives(value: Any) -> Node:
    return Node("output", Op.OUTPUT, "output", (value,))


FORWARD = Graph((*given("x"), called("sin", "torch.sin", Ref("x")), gives(((Ref("sin"),), (Ref("x"),)))))
BACKWARD = Graph(
    (
        *given("g", "x"),
        called("cos", "torch.cos", Ref("x")),
        called("mul", "operator.mul", Ref("g"), Ref("cos")),
        gives((Ref("mul"),)),
    )
)


def case(kwargs: Mapping[str, Any] = SAVED, forward: Graph = FORWARD) -> Case:
    """x.sin() with a derivative of its own, then twice that; the names `g` and `operator` are the program's."""
    apply = Node(
        "apply", Op.CALL_FUNCTION, "torch.ops.higher_order.autograd_function_apply",
        (Ref("forward"), Ref("backward"), Ref("g")), kwargs,
    )  # fmt: skip
    nodes = (
        *given("g"),
        Node("forward", Op.GET_ATTR, "fwd"),
        Node("backward", Op.GET_ATTR, "bwd"),
        apply,
        called("operator", "operator.getitem", Ref("apply"), 0),
        called("twice", "operator.mul", Ref("operator"), 2),
        gives((Ref("twice"),)),
    )
    graph = Graph(nodes, {"fwd": forward, "bwd": BACKWARD})
    x = Tensor("torch.float32", (4,), (1,), storage=0, requires_grad=True)
    return Case(Level.DYNAMO, graph, (x,), storages=(Storage(0),), phase=Phase.RUN_BACKWARD)


def test_it_is_a_class_that_calls_its_bodies() -> None:
    text = render(case()).source
    assert (
        "class Applied(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, *inputs):\n"
        "        results, saved = fwd(*inputs)\n"
        "        ctx.save_for_backward(*saved)\n"
        "        return results\n"
        "\n"
        "    @staticmethod\n"
        "    def backward(ctx, *gradients):\n"
        "        return bwd(*gradients, *ctx.saved_tensors)\n"
    ) in text
    assert "Applied.apply(" in text
    assert "autograd_function_apply" not in text


def test_what_it_marks_and_keeps_otherwise() -> None:
    text = render(case({"non_differentiable_idx": [0], "saved_for_backward_idx": []})).source
    assert "ctx.mark_non_differentiable(results[0])" in text
    assert "ctx.saved = saved" in text
    assert "(*gradients, *ctx.saved)" in text


@pytest.mark.parametrize(
    ("kwargs", "forward"),
    [
        ({**SAVED, "dirty_idx": [0]}, FORWARD),
        ({**SAVED, "non_differentiable_idx": ["0]); print("]}, FORWARD),  # a Case that was tampered with
        ({**SAVED, "saved_for_backward_idx": [[0]]}, FORWARD),
        ({"args_tensor_mask": [True], "non_differentiable_idx": []}, FORWARD),  # as torch wrote it before
        ({"saved_for_backward_idx": [0]}, Graph((*FORWARD.nodes[:-1], gives(((Ref("sin"),), (Ref("x"), Ref("sin"))))))),
        (SAVED, Graph((*FORWARD.nodes[:-1], gives((Ref("sin"),))))),
    ],
)
def test_what_has_no_such_form_is_left_to_another(kwargs: Mapping[str, Any], forward: Graph) -> None:
    with pytest.raises(CannotRender):
        render(case(kwargs, forward))


def test_a_graph_without_its_bodies_is_left_to_another() -> None:
    whole = case()
    with pytest.raises(CannotRender):
        render(replace(whole, graph=replace(whole.graph, bodies={"fwd": FORWARD})))


@pytest.mark.slow
@pytest.mark.parametrize("form", [Form.COMPILE, Form.BACKEND])
def test_the_script_runs_forward_and_backward(form: Form, tmp_path: Path) -> None:
    assert_runs(render(case(), form).source, tmp_path)
