"""Places among equal elements: free where no order is promised, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.nudged import Nudged
from torchsleuth.referee.referee import Report

Function = Callable[..., Any]


def refereed(eager: Function, other: Function, *inputs: Any) -> Report:
    return check_graph(eager, other, inputs, backward=False)


_TIES = torch.tensor([[2, 1, 2], [1, 1, 1], [3, 1, 1]])


def _last_first(x: torch.Tensor) -> torch.Tensor:
    """Places of a sort that puts the last of equal elements first."""
    return x.shape[-1] - 1 - x.flip(-1).sort(stable=True).indices


@pytest.mark.parametrize("stable", [False, None])
def test_places_among_equal_whole_numbers_are_free(stable: bool | None) -> None:
    report = refereed(lambda x: torch.ops.aten.sort(x, stable=stable, dim=-1)[1], _last_first, _TIES)
    assert not report.wrong
    assert "among equals" in report.excused[0].excused


def test_places_of_a_stable_sort_are_not_free() -> None:
    assert refereed(lambda x: x.sort(stable=True).indices, _last_first, _TIES).wrong


def test_a_place_of_another_number_is_wrong() -> None:
    assert refereed(lambda x: x.sort().indices, lambda x: x.sort(descending=True).indices, torch.arange(6)).wrong


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
@pytest.mark.parametrize("choose", [torch.sort, lambda x: torch.topk(x, 2), lambda x: torch.kthvalue(x, 2)])
def test_eager_that_is_moved_takes_another_of_them(choose: Function, dtype: torch.dtype) -> None:
    x = torch.zeros(1, 3, dtype=dtype)
    plain = choose(x)
    with Nudged(1, far=True):
        moved = choose(x)
    assert torch.equal(moved[0], plain[0])
    assert not torch.equal(moved[1], plain[1])


@pytest.mark.parametrize("values", [[[3, 1, 2]], [[float("inf"), -1.0, float("nan")]]])
def test_what_is_not_equal_stays_where_it_is(values: list[list[float]]) -> None:
    x = torch.tensor(values)
    with Nudged(1, far=True):
        moved = torch.sort(x)
    assert torch.equal(moved[1], torch.sort(x)[1])
