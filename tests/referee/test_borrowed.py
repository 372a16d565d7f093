"""Float64 runs that do without copies of their inputs, and results kept as distances."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from torchsleuth.referee import blocks, upcast, verdict
from torchsleuth.referee.apart import Apart
from torchsleuth.referee.graph import Before, check_call, check_graph, observe
from torchsleuth.referee.upcast import NotBorrowed, Upcast
from torchsleuth.referee.verdict import References

INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, INF, -INF, NAN, 1e300, -1e300, 1e-40)


def whole(value: torch.Tensor | blocks.InParts) -> torch.Tensor:
    return torch.cat([part for _, (part,) in blocks.blocks(value)])


numbers = st.one_of(st.sampled_from(SPECIAL), st.floats(-1e4, 1e4))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(numbers, st.floats(-1e-3, 1e-3)), min_size=1, max_size=20))
def test_what_is_kept_as_a_distance_says_what_it_was(drawn: list[tuple[float, float]]) -> None:
    exact = torch.tensor([value for value, _ in drawn], dtype=torch.float64)
    eager = (exact * (1 + torch.tensor([error for _, error in drawn], dtype=torch.float64))).float()
    found = whole(Apart(exact, eager, torch.float32))
    large = exact.isfinite() & (exact.abs() > 1e38)
    assert torch.equal(found.isnan(), exact.isnan())
    assert torch.equal(found[~large].isfinite(), exact[~large].isfinite())
    assert torch.equal(found[exact.isinf()], exact[exact.isinf()])
    assert bool(found[large & eager.isinf()].isfinite().all()), "no agreement with eager's infinity"
    known = exact.isfinite() & ~large
    between = (exact - eager.double())[known].abs()
    smallest = 1e-44 * (blocks.size_of(eager) or 1.0)
    assert bool(((found - exact)[known].abs() <= 1e-6 * between + 1e-14 * exact[known].abs() + smallest).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("wrong", [0.0, 1e-5, 0.5, NAN])
def test_distances_lead_to_the_verdict_that_the_values_do(dtype: torch.dtype, wrong: float) -> None:
    torch.manual_seed(0)
    exact = torch.randn(5, 4, dtype=torch.complex128 if dtype.is_complex else torch.float64).t()
    eager = exact.to(dtype)
    compiled = (eager * (1 + torch.finfo(dtype).eps)).to(dtype)
    compiled[1, 2] += wrong
    nudged = [exact * (1 + 1e-7), exact * (1 - 1e-7)]
    kept = Apart(exact, eager, torch.float32)
    distances = References(kept, [Apart(n, kept, torch.bfloat16) for n in nudged], 2.0**-19)
    one = verdict.judge("out", eager, compiled, References(exact, nudged, 2.0**-19))
    other = verdict.judge("out", eager, compiled, distances)
    assert one is not None
    assert other is not None
    assert (one.how, one.excused, one.text) == (other.how, other.excused, other.text)
    assert other.compiled_error == pytest.approx(one.compiled_error, rel=1e-4)
    assert other.eager_error == pytest.approx(one.eager_error, rel=1e-4)


def layers(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    linear = torch.nn.functional.linear
    return linear(torch.tanh(linear(x, weight)), weight).softmax(-1)


def test_a_run_on_borrowed_inputs_gives_what_one_on_copies_does() -> None:
    inputs = [torch.rand(4, 8), torch.nn.Parameter(torch.rand(8, 8))]
    runs = []
    for borrows in (True, False):
        with Upcast(borrows=borrows):
            runs.append({s.path: s.value for s in observe(layers, inputs, backward=True)})
    for path in ("out", "inputs[1].grad"):
        assert runs[0][path].dtype is torch.float64
        assert torch.equal(runs[0][path], runs[1][path])
    assert runs[0]["inputs[1]"].data_ptr() == inputs[1].data_ptr(), "the weight was copied"
    assert inputs[1].grad is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mul_(2.0),
        lambda x: x.view(-1)[1:].add_(1.0),
        lambda x: torch.sin_(x.t()),
        lambda x: x.t()[1].unsqueeze(0).detach().zero_(),
        lambda x: x.bernoulli_(),
        lambda x: x.t().normal_(),
        lambda x: torch.autocast("cpu", torch.bfloat16)(torch.mm)(x, x),
        lambda x: x.to(torch.float16) * 2,
    ],
)
def test_what_needs_copies_is_refused_before_anything_is_written(function: Callable[..., Any]) -> None:
    x = torch.rand(4, 4)
    was = x.clone()
    with pytest.raises(NotBorrowed), Upcast(borrows=True):
        observe(function, [x], backward=False)
    assert torch.equal(x, was)
    assert not upcast.is_active()


def test_writing_to_an_input_is_refereed_with_copies() -> None:
    x = torch.rand(1000)
    was = x.clone()
    report = check_graph(lambda x: x.exp_().sum(), lambda x: x.exp_().mul_(1 + 1e-4).sum(), [x], backward=False)
    assert {d.path for d in report.wrong} == {"out", "inputs[0]"}
    assert not report.notes
    assert torch.equal(x, was)


def test_an_operator_that_wants_one_dtype_is_refereed_with_copies() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k.sin(), k.cos())

    inputs = [torch.rand(1, 2, 8, 4) for _ in range(2)]
    report = check_graph(attention, lambda q, k: attention(q, k) * (1 + 1e-4), inputs, backward=False)
    assert report.wrong
    assert not report.notes, "there was a reference"


def test_copies_of_what_a_call_left_alone_are_let_go() -> None:
    x, cache = torch.rand(8), torch.zeros(8)
    x[0] = NAN
    inputs = [x, cache[:4], cache[4:], 3]
    before = Before.of(inputs)
    copy = weakref.ref(before.inputs[0])
    cache[5] = 1.0  # what the call does
    before.let_go(inputs)
    gc.collect()
    assert copy() is None
    assert before.inputs[0].data_ptr() == x.data_ptr()
    assert before.inputs[1].data_ptr() != cache.data_ptr(), "its other half was written to, in the same memory"
    assert before.inputs[2].tolist() == [0.0] * 4


def test_a_call_that_overwrites_an_input_is_still_found() -> None:
    x = torch.rand(100)
    before = Before.of([x])
    out = x.sin()
    x.mul_(1.5)
    report = check_call(torch.sin, before, out, [x])
    assert [d.path for d in report.wrong] == ["inputs[0]"]
    assert torch.equal(before.inputs[0].sin(), out)
