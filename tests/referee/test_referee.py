"""The referee: noise is never called wrong, and wrong is never called noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torchsleuth.referee.graph import check_graph, copies, observe
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.upcast import NoReference, Upcast
from torchsleuth.referee.values import Seen, flatten

Function = Callable[..., Any]


def refereed(eager: Function, other: Function, *inputs: Any, backward: bool = False) -> Report:
    return check_graph(eager, other, inputs, backward=backward)


def paths(report: Report) -> list[tuple[str, str]]:
    return [(d.path, d.how) for d in report.wrong]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


# --- wrong ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.1, 1.001, 1 + 1e-5])
def test_a_scale_that_is_off_is_wrong(factor: float) -> None:
    report = refereed(lambda x: x.tanh(), lambda x: x.tanh() * factor, torch.randn(100))
    assert paths(report) == [("out", "values")]


def test_one_wrong_element_among_many_is_wrong() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        y[-1] = 0
        return y

    report = refereed(torch.exp, broken, torch.randn(1_000_000))
    assert "worst at [999999]" in report.wrong[0].text


def test_wrong_gradients_are_found_where_the_forward_is_right() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return grads[0] * 4

    x = torch.randn(5, requires_grad=True)
    assert paths(refereed(lambda x: x * 3, Twice.apply, x, backward=True)) == [("inputs[0].grad", "values")]
    assert not refereed(lambda x: x * 3, Twice.apply, x).wrong


def test_what_is_left_in_an_input_counts() -> None:
    report = refereed(lambda x: x.add_(1) * 2, lambda x: (x + 1) * 2, torch.zeros(3))
    assert paths(report) == [("inputs[0]", "values")]


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (lambda x: x.double(), "dtype"),
        (lambda x: x[None], "shape"),
        (lambda x: 3, "type"),
        (lambda x: torch.full_like(x, float("nan")), "nan"),
    ],
)
def test_how_it_differs_is_told(other: Function, how: str) -> None:
    assert [d.how for d in refereed(lambda x: x + 0, other, torch.ones(3)).wrong] == [how]


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_whether_eager_gives_nans_is_told(value: float) -> None:
    report = refereed(lambda x, y: (x + 0, y), lambda x, y: (x + 1, y), torch.ones(3), torch.tensor([1.0, value]))
    assert paths(report) == [("out[0]", "values")]
    assert report.nans == (value != value)


def test_another_order_in_memory_is_noted_and_wrong_only_where_it_is_asked_for() -> None:
    def eager() -> list[Seen]:
        return list(flatten((torch.ones(2, 3), torch.ones(1, 3), torch.ones(0, 2, 3)), "out"))

    def other() -> list[Seen]:
        moved = torch.ones(2, 3).t().contiguous().t(), torch.ones(3, 1).t(), torch.ones(0, 3, 2).transpose(1, 2)
        return list(flatten(moved, "out"))

    plain = referee(eager, other)
    assert not plain.wrong
    assert [(d.path, d.text) for d in plain.strides] == [("out[0]", "compiled gives strides [1, 2], eager [3, 1]")]
    asked = referee(eager, other, strides=True)
    assert paths(asked) == [("out[0]", "stride")]
    assert asked.how == "stride"
    assert not referee(eager, eager, strides=True).wrong


def test_where_a_number_is_wrong_its_order_is_no_matter() -> None:
    report = referee(
        lambda: list(flatten(torch.ones(2, 3), "out")),
        lambda: list(flatten(torch.zeros(3, 2).t(), "out")),
        strides=True,
    )
    assert paths(report) == [("out", "values")]


def test_whole_numbers_that_no_tie_explains_are_wrong() -> None:
    report = refereed(lambda x: x.argmax(-1), lambda x: x.argmax(-1) * 0, torch.randn(50, 8))
    assert paths(report) == [("out", "values")]
    assert not refereed(lambda x: x > 0, lambda x: x > 0, torch.randn(9)).wrong


def test_the_sign_of_a_nan_counts_only_where_it_is_seen() -> None:
    x = torch.full((4,), float("nan"))
    assert not refereed(lambda x: x, lambda x: -x, x).wrong
    assert paths(refereed(torch.signbit, lambda x: torch.signbit(-x), x)) == [("out", "values")]


def test_a_difference_in_the_tail_of_a_low_precision_reduction_is_wrong() -> None:
    x = torch.randn(64, 1000).bfloat16()
    report = refereed(lambda x: x.float().sum(-1), lambda x: x[:, :-8].float().sum(-1), x)
    assert paths(report) == [("out", "values")]


# --- not wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eager", "other", "inputs"),
    [
        (lambda x: x.sum(), lambda x: x.flip(0).cumsum(0)[-1], (torch.linspace(-1, 1, 100_000),)),
        (lambda a, b: a @ b, lambda a, b: (b.T @ a.T).T.contiguous(), (torch.ones(8, 4096), torch.randn(4096, 8))),
        (
            lambda x: F.layer_norm(x, (64,)),
            lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt(),
            (1000 + 1e-3 * torch.linspace(0, 1, 640).reshape(10, 64),),
        ),
        (lambda x: x.topk(3).indices, lambda x: x.sort(descending=True, stable=True).indices[:3], (torch.zeros(16),)),
        (lambda x: x.argmax(), lambda x: x.shape[0] - 1 - x.flip(0).argmax(), (torch.ones(5),)),
        (lambda x: (x / 3 * 3 > 1).float(), lambda x: (x > 1).float(), (torch.ones(5),)),
        (torch.inverse, lambda x: torch.linalg.solve(x, torch.eye(6)), (1 / (torch.arange(36.0).reshape(6, 6) + 1),)),
        (lambda x: x.softmax(-1), lambda x: (x - x.amax(-1, keepdim=True)).exp() / _sum(x), (50 * torch.eye(4),)),
    ],
)  # fmt: skip
def test_rounding_is_no_bug(eager: Function, other: Function, inputs: tuple[torch.Tensor, ...]) -> None:
    assert not refereed(eager, other, *inputs).wrong


def _sum(x: torch.Tensor) -> torch.Tensor:
    return (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)


def test_where_float64_sides_with_compiled_it_is_excused_and_said() -> None:
    x = torch.full((4,), 300.0).half()
    report = refereed(lambda x: (x * x).sqrt(), lambda x: (x.float() * x.float()).sqrt().half(), x)
    assert not report.wrong
    assert "float64 sides with compiled" in report.excused[0].excused


def test_a_lower_precision_inside_is_measured_by_eager_itself() -> None:
    def half(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.bfloat16() @ b.bfloat16()).float()

    a, b = torch.randn(64, 64), torch.randn(64, 64)
    assert not refereed(half, lambda a, b: a @ b, a, b).wrong
    assert paths(refereed(lambda a, b: a @ b, half, a, b)) == [("out", "values")]


def test_eager_that_differs_from_itself_says_nothing() -> None:
    calls: list[int] = []

    def flaky(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    report = refereed(flaky, lambda x: x, torch.zeros(2))
    assert not report.wrong
    assert "not deterministic" in report.excused[0].excused


def test_dropout_draws_alike_in_every_run() -> None:
    x = torch.randn(100, requires_grad=True)
    report = refereed(lambda x: F.dropout(x, 0.5) * 1.5, lambda x: F.dropout(x, 0.5) / (2 / 3), x, backward=True)
    assert not report.wrong


# --- the program stays as it is -------------------------------------------------------------------------------------


def test_inputs_gradients_and_random_state_are_untouched() -> None:
    x = torch.randn(4, requires_grad=True)
    buffer = torch.zeros(4)
    state = torch.get_rng_state()

    def model(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        buffer.add_(x.detach())
        return x * torch.rand(4)

    refereed(model, lambda x, b: model(x, b) * 2, x, buffer, backward=True)
    assert x.grad is None
    assert not buffer.any()
    assert torch.equal(torch.get_rng_state(), state)


def test_copies_share_memory_as_their_originals_do() -> None:
    base = torch.arange(10.0)
    first, second, alone = copies([base[2:6], base[4:], torch.ones(2)])
    first += 100
    assert second.tolist() == [104.0, 105.0, 6.0, 7.0, 8.0, 9.0]
    assert alone.tolist() == [1.0, 1.0]
    assert base.tolist() == list(range(10))


def test_expanded_and_strided_inputs_keep_their_strides() -> None:
    given = [torch.ones(3, 1).expand(3, 4), torch.randn(4, 6).t(), torch.randn(8)[::2]]
    assert [c.stride() for c in copies(given)] == [g.stride() for g in given]


# --- the float64 run ------------------------------------------------------------------------------------------------


def test_every_step_of_the_reference_is_float64() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.half().float() + torch.zeros(3, dtype=torch.float32)
        return torch.sum(y, dtype=torch.float16)

    x = torch.full((3,), 1 / 3)
    with Upcast():
        found = observe(model, [x], backward=False)
    exact = x.double().sum()
    assert found[0].value.dtype is torch.float64
    assert abs(found[0].value - exact) < 1e-15


def test_in_place_writes_reach_the_tensor_they_are_meant_for() -> None:
    with Upcast():
        x = torch.ones(3)
        x.add_(0.1)
        x[1] = 5
        y = x * 2
    assert y.tolist() == [2.2, 10.0, 2.2]


def test_draws_of_the_reference_are_those_of_the_program() -> None:
    torch.manual_seed(3)
    plain = torch.rand(5), torch.empty(5).normal_(), torch.randperm(5)
    torch.manual_seed(3)
    with Upcast():
        wide = torch.rand(5), torch.empty(5).normal_(), torch.randperm(5)
    assert all(torch.equal(w, p.to(w.dtype)) for w, p in zip(wide, plain, strict=True))
    assert wide[0].dtype is torch.float64


def test_bits_of_a_float_have_no_reference_and_that_is_said() -> None:
    with pytest.raises(NoReference), Upcast():
        torch.ones(3).view(torch.int32)
    report = refereed(lambda x: x.view(torch.int32).float(), lambda x: x.view(torch.int32).float() * 2, torch.ones(3))
    assert paths(report) == [("out", "values")]
    assert "no float64 reference" in report.notes[0]


def test_the_sign_of_a_zero_that_nothing_rounds_counts() -> None:
    x = torch.tensor([-1.5, 2.0, -3.0])
    report = refereed(lambda x: torch.signbit(x * 0), lambda x: torch.zeros_like(x, dtype=torch.bool), x)
    assert paths(report) == [("out", "values")]


@pytest.mark.parametrize("lazy", ["conj", "neg"])
def test_copies_keep_what_is_not_computed_yet(lazy: str) -> None:
    """Compiled code has read such memory without the sign: a copy that computes it would hide that."""
    whole = torch.complex(torch.arange(4.0), torch.ones(4)).conj()
    given = whole if lazy == "conj" else whole.imag
    [copy, *_] = copies([given])
    [first, second] = copies([given, given[1:]])
    for one in (copy, first, second):
        assert (one.is_conj(), one.is_neg()) == (given.is_conj(), given.is_neg())
    assert torch.equal(copy.resolve_conj().resolve_neg(), given.resolve_conj().resolve_neg())
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert copy.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
    assert copy.stride() == given.stride()


def test_tensors_that_the_graph_holds_are_wide_in_the_reference_and_left_alone() -> None:
    """So are parameters that are to be frozen."""
    graph = torch.fx.Graph()
    x, weight, bias, count = graph.placeholder("x"), *(graph.get_attr(name) for name in ("weight", "bias", "count"))
    graph.call_method("add_", (count, 1))
    found = graph.call_function(torch.conv2d, (x, weight, bias))
    graph.output(graph.call_function(torch.add, (found, count)))
    held = {"weight": torch.nn.Parameter(torch.randn(4, 3, 3, 3)), "bias": torch.nn.Parameter(torch.randn(4))}
    module = torch.fx.GraphModule({**held, "count": torch.zeros(1)}, graph)
    report = refereed(
        module.forward, lambda x: torch.conv2d(x, held["weight"], held["bias"]) * 1.01 + 1, torch.randn(2, 3, 8, 8)
    )
    assert ["against float64" in d.text for d in report.wrong] == [True]
    assert torch.equal(dict(module.named_buffers())["count"], torch.zeros(1))
