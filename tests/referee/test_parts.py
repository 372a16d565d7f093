"""Sums of large parts that cancel: another order of adding is no bug, and a part that is left out is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from torchsleuth.referee import parts
from torchsleuth.referee.graph import check_graph

aten = torch.ops.aten


def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    """In four lanes, as a vectorised loop without further care does it."""
    lanes = x.reshape(x.shape[0], -1, 4).permute(1, 0, 2).contiguous().numpy()
    return torch.from_numpy(np.add.accumulate(lanes, axis=0, dtype=np.float32)[-1]).sum(-1)


def test_adding_in_another_order_is_rounding() -> None:
    x = torch.linspace(-1, 1, 100_000).repeat(4, 1)
    assert float((one_after_the_other(x) - x.double().sum(-1)).abs().max()) > 1e-4
    assert not check_graph(lambda x: x.sum(-1), one_after_the_other, (x,), backward=False).wrong


def test_a_part_that_is_left_out_is_wrong() -> None:
    x = torch.randn(4, 100_000)
    assert check_graph(lambda x: x.sum(-1), lambda x: x[:, 1:].sum(-1), (x,), backward=False).wrong
    large = 1000 + torch.randn(8, 1000)
    assert check_graph(lambda x: x.var(-1), lambda x: x[:, 1:].var(-1), (large,), backward=False).wrong
    assert check_graph(lambda x: x.var(-1), lambda x: x.var(-1, correction=0), (large,), backward=False).wrong


def test_a_variance_of_numbers_far_from_zero_may_be_worked_out_in_one_pass() -> None:
    def welford(x: torch.Tensor) -> torch.Tensor:
        mean, squares = torch.zeros(x.shape[0]), torch.zeros(x.shape[0])
        for n, one in enumerate(x.unbind(1), start=1):
            change = one - mean
            mean = mean + change / n
            squares = squares + change * (one - mean)
        return squares / (x.shape[1] - 1)

    x = 1000 + torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    assert not check_graph(lambda x: x.var(-1), welford, (x,), backward=False).wrong


@pytest.mark.parametrize(
    ("operator", "args", "kwargs"),
    [
        (aten.sum.default, (), {}),
        (aten.sum.dim_IntList, ([1],), {}),
        (aten.sum.dim_IntList, ([0, 2], True), {}),
        (aten.mean.dim, ([-1],), {"dtype": torch.float64}),
        (aten.cumsum.default, (1,), {}),
        (aten.nansum.default, ([0],), {}),
        (aten.var.correction, (), {}),
        (aten.var.correction, ([1],), {"correction": 0, "keepdim": True}),
        (aten.std.correction, ([0, 1],), {}),
        (aten.var_mean.correction, ([2],), {"keepdim": True}),
        (aten.std_mean.correction, ([2],), {}),
    ],
)
def test_each_result_has_a_size_of_its_shape(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    result = operator(x, *args, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    found = parts.sizes(operator, (x, *args), kwargs)
    assert found is not None
    assert [s.shape for s in found] == [r.shape for r in results]
    assert all(bool((s >= 0).all()) for s in found)


def test_others_go_by_what_they_give() -> None:
    x = torch.randn(3)
    assert parts.sizes(aten.sin.default, (x,), {}) is None
    assert parts.sizes(aten.sum.default, (torch.arange(3),), {}) is None
