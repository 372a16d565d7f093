"""Operators whose bodies see other tensors, as text: functions close over those, as in a program."""

from __future__ import annotations

import pytest
import torch
import torch._higher_order_ops

from torchsleuth.case.expressions import show
from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.case.program import higher_order

BLOCKS = (1, 1, Ref("counts"), None, Ref("mask"))


def flex(*args: object) -> Node:
    return Node(
        "flex", Op.CALL_FUNCTION, higher_order.FLEX_ATTENTION, (Ref("q"), Ref("k"), Ref("v"), Ref("score"), *args)
    )


def test_flex_attention_closes_over_what_its_functions_see() -> None:
    text = higher_order.flex_attention(flex(BLOCKS, 0.5, {}, (Ref("bias"), Ref("w")), ()), show)
    assert text == (
        "torch.ops.higher_order.flex_attention("
        "q, k, v, lambda *given: score(*given, bias, w), (1, 1, counts, None, mask,), 0.5, {})"
    )
    other = higher_order.flex_attention(flex(BLOCKS, 0.5, {}, (), (Ref("m"),)), show)
    assert other is not None
    assert "k, v, score, (1, 1, counts, None, lambda *given: mask(*given, m),)" in other


def test_another_flex_attention_is_written_as_it_is() -> None:
    assert higher_order.flex_attention(flex(BLOCKS, 0.5, {}), show) is None
    assert higher_order.flex_attention(flex((), 0.5, {}, (), ()), show) is None


def test_scan_is_a_function_of_two_arguments_again() -> None:
    args = (Ref("combine"), [Ref("a"), Ref("b")], [Ref("xs")], (Ref("w"),))
    assert higher_order.scan(Node("scan", Op.CALL_FUNCTION, higher_order.SCAN, args), "scan", show) == [
        "def scan_step(carried, given):",
        "    made = combine(*carried, *given, w)",
        "    return list(made[:2]), list(made[2:])",
        "scan_carried, scan_made = torch._higher_order_ops.scan(scan_step, [a, b], [xs])",
        "scan = torch.utils._pytree.tree_leaves((scan_carried, scan_made))",
    ]
    assert higher_order.scan(Node("scan", Op.CALL_FUNCTION, higher_order.SCAN, args[:3]), "scan", show) is None


@pytest.mark.parametrize("stance", ["default", "force_eager"])
def test_scan_gives_the_same_with_compilation_off(stance: str) -> None:
    """torch then hands out the only carried value and the only result bare."""
    args = (Ref("combine"), [Ref("a")], [Ref("xs")], ())
    lines = higher_order.scan(Node("scan", Op.CALL_FUNCTION, higher_order.SCAN, args), "scan", show)
    names = {"torch": torch, "combine": lambda c, x: [c + x, c * x], "a": torch.ones(2), "xs": torch.ones(5, 2)}
    with torch.compiler.set_stance(stance):
        exec("\n".join(lines or ()), names)
    assert [tuple(t.shape) for t in names["scan"]] == [(2,), (5, 2)]
