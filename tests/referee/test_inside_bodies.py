"""The float64 run goes through higher-order operators, into their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_helpers import graph_of
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention

from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.nudged import Nudged
from torchsleuth.referee.upcast import Upcast

Function = Callable[..., Any]
X = torch.linspace(-1, 2, 16).reshape(4, 4)


@torch.compiler.nested_compile_region
def _region(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 1.1


FUNCTIONS: dict[str, Function] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x.sin() * 1.1, lambda x: x.cos(), (x,)),
    "while_loop": lambda x: while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 1.1), (torch.tensor(0), x))[1],
    "scan": lambda x: scan(lambda c, v: (c + v, c * v), x[0], x, dim=0)[1],
    "map": lambda x: torch_map(lambda row: row.sin() * 1.1, x),
    "region": _region,
    "flex_attention": lambda x: flex_attention(*[x.repeat(8, 4)[None, None]] * 3, score_mod=_near),
}


def _near(score: torch.Tensor, b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return score + (q - k).abs() * 0.1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_comes_out_is_of_float64(name: str) -> None:
    graph = graph_of(FUNCTIONS[name], X)
    (plain,), mode = graph(X), Upcast()
    with mode:
        (wide,) = graph(X)
    assert wide.dtype is torch.float64
    assert not mode.mixed
    torch.testing.assert_close(wide.float(), plain)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_loose_comparison_would_pass_is_found(name: str) -> None:
    graph = graph_of(FUNCTIONS[name], X)
    report = check_graph(graph, lambda x: (graph(x)[0] * (1 + 1e-4),), [X], backward=False)
    assert "against float64" in report.wrong[0].text
    assert not report.notes


def test_a_cast_inside_a_body_brings_no_rounding_back() -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: (x.half() * 1.1).float(), lambda x: x.cos(), (x,))

    graph = graph_of(halved, X)
    with Upcast():
        (wide,) = graph(X)
    torch.testing.assert_close(wide, X.double() * 1.1, rtol=1e-12, atol=0)


def test_the_gradient_of_a_branch_has_a_reference() -> None:
    x = X.clone().requires_grad_()
    graph = graph_of(FUNCTIONS["cond"], x)
    assert not check_graph(graph, graph, [x], backward=True).notes
    other = graph_of(lambda x: torch.cond(x.sum() > 0, lambda x: _Off.apply(x), lambda x: x.cos(), (x,)), x)
    report = check_graph(graph, other, [x], backward=True)
    assert [d.path for d in report.wrong] == ["inputs[0].grad"]


class _Off(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin() * 1.1

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * ctx.saved_tensors[0].cos() * 1.101


def test_bodies_are_moved_in_the_last_place_too() -> None:
    graph = graph_of(FUNCTIONS["cond"], X)
    with Nudged(1, far=True):
        (moved,) = graph(X)
    (plain,) = graph(X)
    assert not torch.equal(moved, plain)
    torch.testing.assert_close(moved, plain)
