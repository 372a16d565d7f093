"""What rounding decides may go the ways that rounding takes it, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchsleuth.referee.graph import check_graph


def codes(x: torch.Tensor) -> torch.Tensor:
    """The least is 40, or 39 where the last bit falls short."""
    low, high = x.amin(), x.amax()
    return ((x - low) / (high - low) * 200 + 40).to(torch.uint8)


@pytest.mark.parametrize("last", [lambda c: c.min(), lambda c: c.min().float(), lambda c: c.min().float() / 255])
def test_far_from_wherever_rounding_takes_it_is_wrong(last: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(1000)
    (found,) = check_graph(lambda x: last(codes(x)), lambda x: last(codes(x)) * 0, [x], backward=False).wrong
    assert "rounding only moves it" in found.text


def test_where_rounding_takes_it_is_right() -> None:
    torch.manual_seed(0)
    x = torch.randn(1000)
    assert not check_graph(lambda x: codes(x).min(), lambda x: codes(x).min() - 1, [x], backward=False).wrong


def test_a_place_among_many_ties_is_right_wherever() -> None:
    x = torch.ones(4, 1000)
    report = check_graph(lambda x: x.argmax(-1), lambda x: 999 - x.argmax(-1), [x], backward=False)
    assert not report.wrong


def test_another_of_two_that_are_routed_to_is_right() -> None:
    """A value that jumps: the gate is a tie, and what lies behind it far apart."""
    gate, data = torch.zeros(8, 2), torch.tensor([[1.0, 1000.0]]).repeat(8, 1)

    def routed(gate: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.gather(1, gate.argmax(-1, keepdim=True))

    def otherwise(gate: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.gather(1, 1 - gate.argmax(-1, keepdim=True))

    assert not check_graph(routed, otherwise, [gate, data], backward=False).wrong


def test_eager_that_differs_from_itself_is_no_matter_of_rounding() -> None:
    values = iter([1.0, 2.0, 1.1, 1.3, 0.9, 1.2, 1.4, 0.8, 1.0, 1.1])
    x = torch.ones(1)
    report = check_graph(lambda x: x * next(values), lambda x: x * 1e6, [x], backward=False)
    assert not report.wrong


def test_where_too_few_nudged_runs_are_to_be_had_nothing_is_said() -> None:
    torch.manual_seed(0)
    x, calls = torch.randn(1000), iter(range(100))

    def eager(x: torch.Tensor) -> torch.Tensor:
        if next(calls) > 4:
            raise MemoryError
        return codes(x).min()

    assert not check_graph(eager, lambda x: codes(x).min() * 0, [x], backward=False).wrong
