"""A float64 run that computes something else than eager does is no reference; one that is only more exact is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.referee import Report

Function = Callable[[torch.Tensor], torch.Tensor]


def refereed(eager: Function, compiled: Function, x: torch.Tensor) -> Report:
    return check_graph(eager, compiled, [x], backward=False)


def otherwise_looked_at(x: torch.Tensor) -> torch.Tensor:
    """As torch's pinv of a complex matrix does."""
    return x * (3 if _get_current_dispatch_mode() is not None else 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_what_is_wrong_in_the_same_way_when_it_is_looked_at_is_wrong(dtype: torch.dtype) -> None:
    report = refereed(otherwise_looked_at, lambda x: x * 3, torch.ones(8, dtype=dtype))
    assert [(d.path, d.how) for d in report.wrong] == [("out", "values")]
    assert "so there is no float64 reference" in report.wrong[0].text


def test_whole_numbers_too() -> None:
    def places(x: torch.Tensor) -> torch.Tensor:
        return (otherwise_looked_at(x) > 2.5).to(torch.int64)

    report = refereed(places, lambda x: torch.ones(8, dtype=torch.int64), torch.ones(8))
    assert [d.path for d in report.wrong] == ["out"]


def test_nans_too() -> None:
    def lost(x: torch.Tensor) -> torch.Tensor:
        return x.log() if _get_current_dispatch_mode() is not None else x

    report = refereed(lost, torch.log, -torch.ones(8))
    assert [(d.path, d.how) for d in report.wrong] == [("out", "nan")]


def test_it_agrees_where_compiled_does_what_eager_does() -> None:
    report = refereed(otherwise_looked_at, lambda x: x * 2 * (1 + 1e-6), torch.ones(8))
    assert report.wrong == ()


def test_where_eager_is_only_inexact_the_reference_holds() -> None:
    """A sum that cancels: eager is far from float64, and is so when it is looked at, too."""
    x = torch.tensor([1e8, 3.0])

    def cancelled(x: torch.Tensor) -> torch.Tensor:
        return (x[0] + x[1]) - x[0]

    assert cancelled(x) == 0
    assert refereed(cancelled, lambda x: x[1].clone(), x).wrong == ()


def test_the_pseudo_inverse_of_a_complex_matrix_in_the_first_call() -> None:
    """In torch 2.13 compiled code is wrong in its first call; where that is mended, nothing differs."""
    draw = torch.Generator().manual_seed(0)
    h = torch.complex(torch.randn(4, 5, 3, generator=draw), torch.randn(4, 5, 3, generator=draw))
    torch.compiler.reset()
    first = torch.compile(torch.linalg.pinv, backend="aot_eager")(h)
    report = refereed(torch.linalg.pinv, lambda _: first, h)
    assert bool(report.wrong) is not torch.allclose(first, torch.linalg.pinv(h), rtol=1e-3, atol=1e-3)
