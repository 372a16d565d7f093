"""Which operators write, and which draw."""

from __future__ import annotations

from typing import Any

import pytest

from torchsleuth.case.effects import draws, writes
from torchsleuth.case.ir import Graph, Node, Op, Ref


def node(target: str, op: Op = Op.CALL_FUNCTION, *args: Any, **kwargs: Any) -> Node:
    return Node("n", op, target, (Ref("x"), *args), kwargs)


@pytest.mark.parametrize(
    "one",
    [
        node("add_", Op.CALL_METHOD),
        node("operator.setitem"),
        node("operator.iadd"),
        node("torch.relu_"),
        node("torch.nn.functional.relu", inplace=True),
        node("torch.nn.functional.batch_norm"),
        node("torch.ops.aten.copy_.default"),
        node("torch.ops.higher_order.cond"),
        node("torch.ops.mylib.step.default"),
        node("torch.add", out=Ref("y")),
    ],
)
def test_writers(one: Node) -> None:
    assert writes(one)


@pytest.mark.parametrize(
    "one",
    [
        node("torch.relu"),
        node("operator.invert"),
        node("operator.add"),
        node("torch._C._set_grad_enabled"),
        node("torch.ops.aten.add.Tensor"),
        node("view", Op.CALL_METHOD),
    ],
)
def test_others_do_not_write(one: Node) -> None:
    assert not writes(one)


def test_random_operators_draw() -> None:
    assert draws(Graph((node("torch.nn.functional.dropout"),)))
    assert not draws(Graph((node("torch.sin"),)))
