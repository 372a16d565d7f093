"""Which operators write, and which draw."""

from __future__ import annotations

from typing import Any

import pytest

from torchsleuth.case.effects import draws, writes, written
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
        node("torch._foreach_add_"),
        node("torch.ops.aten._foreach_mul_.List"),
        node("torch._fused_sgd_"),
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
        node("__and__", Op.CALL_METHOD),
        node("torch.ops.aten.add.Tensor"),
        node("view", Op.CALL_METHOD),
    ],
)
def test_others_do_not_write(one: Node) -> None:
    assert not writes(one)


@pytest.mark.parametrize(
    ("one", "names"),
    [
        (node("add_", Op.CALL_METHOD, Ref("y")), ["x"]),
        (node("torch.add", Op.CALL_FUNCTION, Ref("y"), out=Ref("z")), ["z"]),
        (Node("n", Op.CALL_FUNCTION, "torch._foreach_add_", ((Ref("x"), Ref("y")), (Ref("z"), Ref("w")))), ["x", "y"]),
        (node("torch.nn.functional.batch_norm", Op.CALL_FUNCTION, Ref("mean"), Ref("var")), ["x", "mean", "var"]),
        (node("torch.ops.mylib.step.default", Op.CALL_FUNCTION, Ref("y")), ["x", "y"]),
        (Node("n", Op.CALL_FUNCTION, "torch.relu_", (), {"input": Ref("x")}), ["x"]),
    ],
)
def test_what_is_written_to(one: Node, names: list[str]) -> None:
    assert list(written(one)) == names


def test_random_operators_draw() -> None:
    assert draws(Graph((node("torch.nn.functional.dropout"),)))
    assert not draws(Graph((node("torch.sin"),)))


DROPOUT = "torch.nn.functional.dropout"
ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


@pytest.mark.parametrize(
    ("one", "drawn"),
    [
        (node(DROPOUT, Op.CALL_FUNCTION, 0.1), True),
        (node(DROPOUT, Op.CALL_FUNCTION, 0.1, False), False),
        (node(DROPOUT, p=0.1, training=False), False),
        (node(DROPOUT, p=0.0), False),
        (node(DROPOUT, Op.CALL_FUNCTION, 0.1, Ref("training")), True),
        (node("torch.ops.aten.native_dropout.default", Op.CALL_FUNCTION, 0.1, True), True),
        (node(ATTENTION, Op.CALL_FUNCTION, Ref("k"), Ref("v")), False),
        (node(ATTENTION, Op.CALL_FUNCTION, Ref("k"), Ref("v"), None, 0.1), True),
        (node(ATTENTION, Op.CALL_FUNCTION, Ref("k"), Ref("v"), dropout_p=0.1), True),
        (node("torch.nn.functional.normalize"), False),
        (node("torch.nn.functional.layer_norm"), False),
        (node("normal_", Op.CALL_METHOD), True),
        (node("torch.nn.functional.fractional_max_pool2d"), True),
        (node("dropout_1", Op.CALL_MODULE), True),
    ],
)
def test_what_drops_nothing_draws_nothing(one: Node, drawn: bool) -> None:
    assert draws(Graph((one,))) is drawn
