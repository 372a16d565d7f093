"""A backend that runs eager's own kernels is held to more: low precision in the program is no excuse for it."""

from __future__ import annotations

import torch

from torchsleuth.referee.nudged import Nudged
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.values import Seen


def _inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(32, 64), torch.randn(64, 64), torch.randn(64, 64)


def _island(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A float32 island after a body in bfloat16."""
    return (x.bfloat16() @ w.bfloat16()).float() @ v


def _flooded(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ((x.bfloat16() @ w.bfloat16()) @ v.bfloat16()).float()


def _another_order(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    h = (x.bfloat16() @ w.bfloat16()).float()
    return h[:, :32] @ v[:32] + h[:, 32:] @ v[32:]


def judged(compiled, *, same_kernels: bool) -> Report:
    def run(function):
        return lambda: [Seen("out", function(*_inputs()))]

    return referee(run(_island), run(compiled), same_kernels=same_kernels)


def test_rounding_of_the_body_hides_a_flooded_island_from_float64() -> None:
    assert not judged(_flooded, same_kernels=False).wrong


def test_the_same_kernels_do_not_differ_so_much() -> None:
    report = judged(_flooded, same_kernels=True)
    [wrong] = report.wrong
    assert "where the same kernels may be" in wrong.text
    assert wrong.compiled_error > 10 * wrong.eager_error


def test_sums_in_another_order_are_no_bug_of_theirs() -> None:
    report = judged(_another_order, same_kernels=True)
    assert not report.wrong


def test_a_run_that_is_alike_needs_no_excuse() -> None:
    report = judged(_island, same_kernels=True)
    assert (report.wrong, report.excused, report.compared) == ((), (), 1)


def test_a_model_that_refuses_moved_values_is_excused_as_before() -> None:
    def demanding(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        assert torch.equal(torch.ones(4).cumsum(0), torch.arange(1.0, 5)), "wants whole values"
        return _island(x, w, v)

    report = referee(
        lambda: [Seen("out", demanding(*_inputs()))], lambda: [Seen("out", _flooded(*_inputs()))], same_kernels=True
    )
    assert (report.wrong, len(report.excused)) == ((), 1)


def test_moved_far_every_float_moves_by_some_of_its_own_units() -> None:
    for dtype, most in ((torch.float32, 3e-6), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)):
        x = torch.rand(1000).to(dtype) + 1
        with Nudged(0, far=True):
            moved = x.exp()
        apart = ((moved - x.exp()).double() / x.exp().double()).abs()
        assert 0 < float(apart.max()) < most
        assert float((apart > 0).double().mean()) > 0.4
    with Nudged(0, far=True):
        assert torch.equal(torch.arange(5) * 2, torch.tensor([0, 2, 4, 6, 8]))
