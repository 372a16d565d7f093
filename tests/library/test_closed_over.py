"""`torchsleuth.check` of functions that close over modules and tensors: compared, and afterwards as they were."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import torchsleuth
from torchsleuth import torch_api
from torchsleuth.backends import faulty
from torchsleuth.library import lending
from torchsleuth.library.closed_over import closed_over
from torchsleuth.library.given import Call, Given
from torchsleuth.library.lending import Lent
from torchsleuth.referee.graph import run_backward
from torchsleuth.referee.upcast import Upcast

RIGHT = {"backend": "aot_eager"}
WRONG_RELU = {"backend": faulty("relu", "accuracy")}

NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
WEIGHT = torch.ones(3, requires_grad=True)
OTHERS = ModuleType("others")
OTHERS.net = torch.nn.Linear(3, 3)  # type: ignore[attr-defined]
OTHERS.__file__ = __file__


@pytest.fixture(autouse=True)
def _no_limit_of_recompilations() -> None:
    torch.compiler.reset()


def otherwise(x: torch.Tensor) -> torch.Tensor:
    """Three times as much where it is compiled, twice in eager: gradients differ, too."""
    return x * (3.0 if torch.compiler.is_compiling() else 2.0)


def by_global(x: torch.Tensor) -> torch.Tensor:
    return otherwise(NET(x))


def by_helper(x: torch.Tensor) -> torch.Tensor:
    return by_global(x)


def by_tensor(x: torch.Tensor) -> torch.Tensor:
    return otherwise(x * WEIGHT)


def by_module_of_python(x: torch.Tensor) -> torch.Tensor:
    return otherwise(OTHERS.net(x))


@torch.no_grad()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return otherwise(NET(x))


class ByForward(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return by_global(x)


def in_a_cell(net: torch.nn.Module) -> Callable[..., Any]:
    return lambda x: otherwise(net(x))


def state_of(*values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        tensors = value.state_dict().values() if isinstance(value, torch.nn.Module) else [value]
        found += [t.tolist() for t in tensors]
    return found


@pytest.mark.parametrize(
    ("function", "paths"),
    [
        (by_global, {"NET.0.weight.grad", "NET.1.weight.grad"}),
        (by_helper, {"NET.0.weight.grad"}),
        (by_tensor, {"WEIGHT.grad"}),
        (by_module_of_python, {"OTHERS.net.bias.grad"}),
        (in_a_cell(NET), {"net.1.bias.grad"}),
        (functools.wraps(by_global)(lambda *a: by_global(*a)), {"NET.0.weight.grad"}),
        (functools.partial(in_a_cell(NET)), {"net.1.bias.grad"}),
        (ByForward(), {"NET.0.weight.grad"}),
        (lambda x, net=NET: otherwise(net(x)), {"net.0.weight.grad"}),
        (lambda x: sum(otherwise(NET(x)) for _ in range(1)), {"NET.0.weight.grad"}),
    ],
    ids=["global", "helper", "tensor", "module of Python", "cell", "wrapped", "partial", "forward", "default", "inner"],
)
def test_gradients_of_what_is_closed_over_are_compared_and_nothing_is_left(
    function: Callable[..., Any], paths: set[str]
) -> None:
    before = state_of(NET, WEIGHT, OTHERS.net)  # type: ignore[attr-defined]
    mine = torch.full((3,), 5.0)
    WEIGHT.grad = mine
    verdict = torchsleuth.check(function, torch.randn(8, 3), compile=RIGHT)
    assert verdict.backward
    assert paths <= {d.path for d in verdict.wrong}, str(verdict)
    assert state_of(NET, WEIGHT, OTHERS.net) == before  # type: ignore[attr-defined]
    assert all(p.grad is None for net in (NET, OTHERS.net) for p in net.parameters())  # type: ignore[attr-defined]
    assert WEIGHT.grad is mine
    assert mine.tolist() == [5.0] * 3


def test_a_right_compiler_is_right_with_closed_over_modules() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    verdict = torchsleuth.check(lambda x: net(x).relu(), torch.randn(8, 3), compile=RIGHT)
    assert verdict, str(verdict)
    assert not verdict.report.excused
    assert net[1].num_batches_tracked == 0


def test_a_buffer_that_is_closed_over_is_compared() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> None:
            self.total = self.total + otherwise(x)  # another tensor than before

    counting = Counting()
    total = counting.total
    verdict = torchsleuth.check(lambda x: counting(x), torch.ones(3), compile=RIGHT)
    assert [d.path for d in verdict.wrong] == ["counting.total"]
    assert counting.total is total
    assert total.tolist() == [0.0] * 3


def test_what_is_written_to_a_closed_over_tensor_is_seen_by_one_run() -> None:
    state = {"h": torch.zeros(2), "kept": [torch.ones(1)]}

    def function(x: torch.Tensor) -> torch.Tensor:
        state["h"].add_(x)
        state["kept"].append(x)
        state["new"] = x
        return otherwise(state["h"])

    verdict = torchsleuth.check(function, torch.ones(2), compile=RIGHT)
    assert [d.path for d in verdict.wrong] == ["out"]
    assert not verdict.report.excused, "eager met what the run before had written"
    assert list(state) == ["h", "kept"]
    assert len(state["kept"]) == 1
    assert state["h"].tolist() == [0.0, 0.0]


def test_a_whole_step_with_its_optimizer_leaves_nothing() -> None:
    net = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(net.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before = state_of(net)
    verdict = torchsleuth.check(step, torch.randn(4, 3), compile={"backend": "eager"})
    assert verdict, str(verdict)
    assert state_of(net) == before
    assert optimizer.state == {}
    assert net.weight.grad is None


def test_it_is_as_it_was_after_an_error() -> None:
    net = torch.nn.BatchNorm1d(3)
    grads = [p.grad for p in net.parameters()]

    def function(x: torch.Tensor) -> None:
        net(x)
        net.extra = x  # type: ignore[assignment]
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        torchsleuth.check(function, torch.randn(4, 3), compile=RIGHT)
    assert net.running_mean is not None
    assert net.running_mean.tolist() == [0.0] * 3
    assert not hasattr(net, "extra")
    assert [p.grad for p in net.parameters()] == grads


def test_inputs_that_share_memory_with_what_is_closed_over_do_so_in_each_run() -> None:
    weight = torch.zeros(4)
    seen: list[list[float]] = []

    def function(x: torch.Tensor, same: torch.Tensor) -> None:
        assert same is weight
        x.add_(1)
        seen.append(weight.tolist())

    torchsleuth.check(function, weight[1:3], weight, compile={"backend": "eager"})
    assert all(values == [0.0, 1.0, 1.0, 0.0] for values in seen)
    assert weight.tolist() == [0.0] * 4


def test_the_float64_run_gets_wide_tensors_and_gives_them_back() -> None:
    net = torch.nn.Linear(3, 3, dtype=torch.bfloat16)
    dtypes: set[torch.dtype] = set()

    def function(x: torch.Tensor) -> torch.Tensor:
        dtypes.add(net.weight.dtype)
        return otherwise(net(x))

    verdict = torchsleuth.check(function, torch.randn(8, 3, dtype=torch.bfloat16), compile={"backend": "eager"})
    assert not verdict
    assert dtypes == {torch.bfloat16, torch.float64}
    assert net.weight.dtype is torch.bfloat16
    assert net.weight.grad is None


def test_a_graph_of_the_users_own_is_left_whole() -> None:
    leaf = torch.ones(2, requires_grad=True)
    result = leaf.exp()
    verdict = torchsleuth.check(lambda x: x * result, torch.ones(2, requires_grad=True), compile=RIGHT)
    assert verdict
    assert "note: closed over and used as it is, not copied: result" in str(verdict)
    assert leaf.grad is None
    result.sum().backward()
    assert leaf.grad is not None


@pytest.mark.parametrize(
    ("room", "named"), [(5, "table[0], table[1], table[2] and 2 more"), (0, "net.weight, net.bias")]
)
def test_what_is_too_large_to_copy_is_said(monkeypatch: pytest.MonkeyPatch, room: int, named: str) -> None:
    net, table = torch.nn.Linear(2, 2), [torch.ones(2) for _ in range(5)]
    monkeypatch.setattr(lending, "room_to_compare", lambda tensors: len(tensors) <= room)
    verdict = torchsleuth.check(lambda x: otherwise(net(table[0] * x)), torch.ones(2), compile=RIGHT)
    assert {d.path for d in verdict.wrong} == {"out", "net.weight.grad", "net.bias.grad"}
    said = f"closed over and used as it is, too large to be copied: {named}"
    assert any(note.startswith(said) for note in verdict.report.notes)
    assert net.weight.grad is None


def test_generators_that_are_closed_over_draw_the_same_in_each_run() -> None:
    holder = SimpleNamespace(generator=torch.Generator().manual_seed(1), x=torch.zeros(2))
    seen: list[float] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.rand((), generator=holder.generator).item())
        return x + holder.x

    torchsleuth.check(function, torch.ones(2), compile={"backend": "eager"})
    assert len(set(seen)) == 1
    assert torch.rand((), generator=holder.generator).item() == seen[0]


def test_gradients_of_the_float64_run_are_wide_too() -> None:
    WEIGHT.grad = torch.full((3,), 5.0)
    given = Given.of(Call(by_tensor, [torch.ones(3)], {}))
    with Upcast(), given.for_a_run() as call:
        run_backward(call.model(*call.args), given.lent.tensors)
        assert WEIGHT.grad.dtype is torch.float64
        assert WEIGHT.grad.tolist() == [1.0, 2.0, 3.0]
    assert WEIGHT.dtype is WEIGHT.grad.dtype is torch.float32
    assert WEIGHT.grad.tolist() == [5.0] * 3
    WEIGHT.grad = None


class TestWhatIsFound:
    def test_only_globals_that_are_loaded(self) -> None:
        def reads_an_attribute(x: Any) -> Any:
            return x.NET, x.WEIGHT

        assert closed_over(reads_an_attribute) == {}
        assert list(closed_over(by_tensor)) == ["WEIGHT"]

    def test_two_of_one_name(self) -> None:
        def first(x: Any, net: Any = NET) -> Any:
            return second(x)

        def second(x: Any, net: Any = OTHERS.net) -> Any:  # type: ignore[attr-defined]
            return x

        assert list(closed_over(first).values()) == [NET, OTHERS.net]  # type: ignore[attr-defined]
        assert list(closed_over(first))[1].startswith("net (of ")

    @pytest.mark.parametrize("model", [torch.sin, len, torch.nn.functional.relu, torch.ops.aten.relu, print, 3])
    def test_nothing_in_what_is_nobodys(self, model: Any) -> None:
        assert closed_over(model) == {}

    def test_a_cell_that_is_empty_yet(self) -> None:
        def outer() -> Any:
            function = lambda: later  # noqa: E731
            found = closed_over(function)
            later = torch.ones(1)
            return found, later

        assert outer()[0] == {}

    def test_functions_that_call_each_other(self) -> None:
        def even(x: Any) -> Any:
            return odd(x)

        def odd(x: Any) -> Any:
            return even(x), NET

        assert list(closed_over(even)) == ["NET"]


def test_a_compiled_function_is_looked_through() -> None:
    compiled = torch.compile(by_tensor, backend="eager")
    assert list(closed_over(compiled)) == ["WEIGHT"]


def test_tensors_are_lent_once_each() -> None:
    lent = Lent.of({"net": NET, "again": [NET[0].weight]})
    assert len(lent.tensors) == len([*NET.parameters(), *NET.buffers()])
    assert lent.notes == ()


def test_changes_that_cancel_in_sums_are_seen() -> None:
    """The bits of the three elements move by d, -2d and d: their sum and the sum of running sums stay the same."""
    before = torch.tensor([3, 7, 5], dtype=torch.int32).view(torch.float32)
    after = torch.tensor([4, 5, 6], dtype=torch.int32).view(torch.float32)
    assert torch_api.digest(before) != torch_api.digest(after)
    assert torch_api.digest(before) == torch_api.digest(before.clone())
