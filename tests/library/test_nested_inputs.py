"""`torchsleuth.check` with inputs inside of containers and objects: each run has its own, and the user's stay."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import torchsleuth
from torchsleuth.backends import faulty
from torchsleuth.referee.referee import Status

RIGHT = {"backend": "aot_eager"}
WRONG_RELU = {"backend": faulty("relu", "accuracy")}

Pair = namedtuple("Pair", ["first", "second"])


@pytest.fixture(autouse=True)
def _no_limit_of_recompilations() -> None:
    torch.compiler.reset()


def adds(amount: float) -> dict[str, Any]:
    """torch.compile's arguments: a backend that adds to every output of a graph, and so to what it writes to."""

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        return lambda *args: tuple(o + amount if isinstance(o, torch.Tensor) else o for o in graph(*args))

    return {"backend": backend}


@dataclass
class Batch:
    x: torch.Tensor
    labels: list[torch.Tensor] = field(default_factory=list)


class Cache:
    """A plain object, as caches of keys and values are."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self.calls = 0
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("nothing", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def otherwise(x: torch.Tensor) -> torch.Tensor:
    """Three times as much where it is compiled, twice in eager: gradients differ, too."""
    return x * (3.0 if torch.compiler.is_compiling() else 2.0)


def write(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


NESTED = {
    "dict": (lambda x: {"x": x}, lambda given: given["x"], "args[0]['x']"),
    "list": (lambda x: [3, x], lambda given: given[1], "args[0][1]"),
    "tuple": (lambda x: (x,), lambda given: given[0], "args[0][0]"),
    "named tuple": (lambda x: Pair(1, x), lambda given: given.second, "args[0].second"),
    "ordered dict": (lambda x: OrderedDict(a=[x]), lambda given: given["a"][0], "args[0]['a'][0]"),
    "deque": (lambda x: deque([x]), lambda given: given[0], "args[0][0]"),
    "dataclass": (Batch, lambda given: given.x, "args[0].x"),
    "object": (Cache, lambda given: given.x, "args[0].x"),
    "object with slots": (Slotted, lambda given: given.x, "args[0].x"),
    "deep": (lambda x: {"a": [Batch(x, [x])]}, lambda given: given["a"][0].labels[0], "args[0]['a'][0].x"),
}


@pytest.mark.parametrize(("make", "look", "path"), NESTED.values(), ids=NESTED)
def test_what_is_written_to_a_nested_input_is_seen_by_one_run(
    make: Callable[[torch.Tensor], Any], look: Callable[[Any], torch.Tensor], path: str
) -> None:
    given = make(torch.ones(3))
    verdict = torchsleuth.check(lambda g: write(look(g)), given, compile=adds(100.0))
    assert not verdict, "eager was excused, for it met what the run before had written"
    assert "out" in {d.path for d in verdict.wrong}
    assert not verdict.report.excused
    assert look(given).tolist() == [1.0] * 3
    assert torchsleuth.check(lambda g: write(look(g)), given, compile=RIGHT)


@pytest.mark.parametrize(("make", "look", "path"), NESTED.values(), ids=NESTED)
def test_wrong_numbers_in_a_nested_input_are_told_by_its_path(
    make: Callable[[torch.Tensor], Any], look: Callable[[Any], torch.Tensor], path: str
) -> None:
    def function(given: Any) -> torch.Tensor:
        x = look(given)
        x.copy_(otherwise(x))
        return torch.zeros(())

    verdict = torchsleuth.check(function, make(torch.ones(3)), compile=RIGHT)
    assert path in {d.path for d in verdict.wrong}


def test_by_keyword_the_path_begins_with_the_name() -> None:
    def function(batch: dict[str, torch.Tensor]) -> None:
        batch["x"].copy_(otherwise(batch["x"]))

    verdict = torchsleuth.check(function, batch={"x": torch.ones(2)}, compile=RIGHT)
    assert [d.path for d in verdict.wrong] == ["batch['x']"]


def test_containers_stay_as_they_are() -> None:
    def function(batch: dict[str, Any]) -> torch.Tensor:
        x = batch.pop("x")
        batch["seen"].append(x)
        batch["y"] = x + 1
        return x.relu()

    batch: dict[str, Any] = {"x": torch.ones(2), "seen": []}
    assert torchsleuth.check(function, batch, compile=RIGHT)
    assert list(batch) == ["x", "seen"]
    assert batch["seen"] == []


def test_what_is_put_into_a_container_is_compared() -> None:
    def function(batch: dict[str, torch.Tensor]) -> None:
        batch["y"] = batch["x"].relu()

    batch = {"x": torch.ones(2)}
    verdict = torchsleuth.check(function, batch, compile=WRONG_RELU)
    assert [d.path for d in verdict.wrong] == ["args[0]['y']"]
    assert list(batch) == ["x"]


def test_tensors_that_share_memory_across_the_tree_do_so_in_the_copies() -> None:
    base = torch.zeros(4)
    halves = {"left": base[:2], "rest": Batch(base[2:], [base])}

    def function(first: torch.Tensor, halves: dict[str, Any], same: torch.Tensor) -> torch.Tensor:
        assert same is halves["rest"].labels[0]
        first.add_(1)
        halves["left"].add_(2)
        halves["rest"].x.add_(4)
        return same.clone()

    verdict = torchsleuth.check(function, base[1:3], halves, base, compile={"backend": "eager"})
    assert verdict, str(verdict)
    seen: list[list[float]] = []
    torchsleuth.check(lambda *a: seen.append(function(*a).tolist()), base[1:3], halves, base, compile=RIGHT)
    assert all(values == [2.0, 3.0, 5.0, 4.0] for values in seen)
    assert base.tolist() == [0.0] * 4


def test_gradients_of_nested_inputs_are_compared_and_nobody_elses_are_touched() -> None:
    leaf = torch.ones(3, requires_grad=True)
    result = torch.ones(3, requires_grad=True) * 2
    batch = {"leaf": leaf, "more": [result]}

    def function(batch: dict[str, Any]) -> torch.Tensor:
        return otherwise(batch["leaf"]) * batch["more"][0]

    verdict = torchsleuth.check(function, batch, compile=RIGHT)
    assert verdict.backward
    assert {d.path for d in verdict.wrong} == {"out", "args[0]['leaf'].grad", "args[0]['more'][0].grad"}
    assert leaf.grad is None
    leaf.grad = torch.full((3,), 7.0)
    torchsleuth.check(function, batch, compile=RIGHT)
    assert leaf.grad.tolist() == [7.0] * 3
    result.sum().backward()  # its graph is whole


def test_gradients_of_outputs_in_a_dataclass_are_asked_for() -> None:
    verdict = torchsleuth.check(lambda x: Batch(otherwise(x)), torch.ones(2, requires_grad=True), compile=RIGHT)
    assert {d.path for d in verdict.wrong} == {"out.x", "args[0].grad"}


def test_a_module_among_the_inputs_is_copied_and_its_gradients_are_compared() -> None:
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3))

    def function(made: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        return otherwise(made["net"](x))

    verdict = torchsleuth.check(function, {"net": net}, torch.randn(8, 3), compile=RIGHT)
    assert "args[0]['net'].0.weight.grad" in {d.path for d in verdict.wrong}
    assert all(p.grad is None for p in net.parameters())
    assert net[0].running_mean.tolist() == [0.0] * 3


def test_a_parameter_that_is_an_input_too_is_one_tensor() -> None:
    net = torch.nn.Linear(2, 2)

    def forward(self: Any, x: torch.Tensor, also: torch.Tensor) -> torch.Tensor:
        assert also is self.weight
        return x @ also

    kind = type("Own", (torch.nn.Linear,), {"forward": forward})
    own = kind(2, 2)
    assert torchsleuth.check(own, torch.ones(2), own.weight, compile={"backend": "eager"})
    assert net.weight.grad is None


def test_what_holds_no_tensor_is_not_copied() -> None:
    lock, config = threading.Lock(), Cache.__new__(Cache)
    given = {"x": torch.ones(2), "lock": lock, "config": config, "torch": torch, "op": torch.ops.aten.relu.default}

    def function(given: dict[str, Any]) -> torch.Tensor:
        assert given["lock"] is lock
        assert given["config"] is config
        return given["op"](given["x"])

    verdict = torchsleuth.check(function, given, compile={"backend": "eager"})
    assert verdict
    assert not verdict.report.notes


def test_a_generator_draws_the_same_in_each_run_and_keeps_its_place() -> None:
    generator = torch.Generator().manual_seed(3)
    seen: list[float] = []

    def function(given: dict[str, Any]) -> None:
        seen.append(torch.rand((), generator=given["generator"]).item())

    torchsleuth.check(function, {"generator": generator, "x": torch.ones(2)}, compile={"backend": "eager"})
    assert len(set(seen)) == 1
    assert torch.rand((), generator=generator).item() == seen[0]


class Unwilling:
    def __init__(self) -> None:
        self.x = torch.ones(2, requires_grad=True)
        self.seen = torch.zeros(2)

    def __deepcopy__(self, memo: dict[int, Any]) -> Unwilling:
        raise TypeError("not me")

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return function_of(self, x)


def function_of(given: Unwilling, x: torch.Tensor) -> torch.Tensor:
    given.seen.add_(x)
    given.last = x  # type: ignore[attr-defined]
    return otherwise(given.x * given.seen)


def test_what_cannot_be_copied_is_lent() -> None:
    given, x = Unwilling(), torch.ones(2)
    for model, args in ((function_of, (given, x)), (given, (x,))):
        verdict = torchsleuth.check(model, *args, compile=RIGHT)
        assert any(d.path.endswith("x.grad") for d in verdict.wrong), str(verdict)
        assert not verdict.report.excused, "eager met what the run before had written"
        assert given.x.grad is None
        assert given.seen.tolist() == [0.0, 0.0]
        assert not hasattr(given, "last")


def test_callables_that_hold_tensors_are_copied() -> None:
    class Scaled:
        def __init__(self) -> None:
            self.scale = torch.ones(3, requires_grad=True)
            self.net = torch.nn.BatchNorm1d(3)

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) * self.scale * self.factor(x)

        def factor(self, x: torch.Tensor) -> torch.Tensor:
            return otherwise(torch.ones(())) if x.shape[0] == 8 else torch.ones(())

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return self(x)

    scaled, x = Scaled(), torch.randn(8, 3)
    models: list[Any] = [scaled, scaled.method, functools.partial(Scaled.__call__, scaled)]
    for model in models:
        assert torchsleuth.check(model, x[:4], compile=RIGHT)
        verdict = torchsleuth.check(model, x, compile=RIGHT)
        assert any(d.path.endswith("scale.grad") for d in verdict.wrong), str(verdict)
        assert scaled.scale.grad is None
        assert scaled.net.weight.grad is None
        assert scaled.net.running_mean is not None
        assert scaled.net.running_mean.tolist() == [0.0] * 3


def test_an_input_that_was_marked_keeps_its_marks() -> None:
    x = torch.ones(4, 2)
    torch._dynamo.mark_dynamic(x, 0)
    sizes: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        sizes.extend(i for i in inputs if isinstance(i, torch.SymInt))
        return graph.forward

    torchsleuth.check(lambda given: given["x"] * 2, {"x": x}, compile={"backend": backend})
    assert sizes


@pytest.mark.filterwarnings("ignore:.*quantize.*:UserWarning")
def test_odd_tensors_inside_containers() -> None:
    sparse = torch.eye(3).to_sparse()
    given = {"sparse": sparse, "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}

    def function(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return given["sparse"].to_dense() + given["quantized"].dequantize().sum()

    verdict = torchsleuth.check(function, given, compile={"backend": "eager"})
    assert not verdict.report.wrong, str(verdict)
    assert not verdict.report.notes
    assert verdict.status is Status.NOTHING_COMPILED  # Dynamo takes no quantized tensor
