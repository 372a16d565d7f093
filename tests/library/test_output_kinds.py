"""`torchsleuth.check` of every kind of output: wrong values are found, or the output is named as not compared."""

from __future__ import annotations

import functools
import re
import types
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution
from torch.distributions.transforms import ExpTransform

import torchsleuth
from torchsleuth.referee.referee import Status


def adds_a_tenth(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    """A backend in which every addition gives a tenth too much."""
    additions = [n for n in graph.graph.nodes if getattr(n.target, "__name__", n.target) == "add"]
    assert additions
    for node in additions:
        with graph.graph.inserting_after(node):
            wrong = graph.graph.call_function(torch.mul, (node, 1.1))
        node.replace_all_uses_with(wrong, delete_user_cb=lambda user, wrong=wrong: user is not wrong)
    graph.recompile()
    return graph.forward


def as_it_is(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    return graph.forward


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Tagged(list):  # type: ignore[type-arg]
    """A list with an attribute beside its elements."""


class Color(Enum):
    RED = "red"


@dataclass
class Batch:
    x: Any
    name: str = "batch"


Pair = namedtuple("Pair", ["first", "second"])


def in_module(x: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Module()
    module.register_buffer("state", x)
    return module


def in_tagged(x: torch.Tensor) -> Tagged:
    found = Tagged()
    found.extra = x  # type: ignore[attr-defined]
    return found


def in_cycle(x: torch.Tensor) -> list[Any]:
    found: list[Any] = [x]
    found.append(found)
    return found


def by_generator(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x


def by_closure(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    def inner() -> torch.Tensor:
        return x

    return inner


def on_tensor(x: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(2)
    found.extra = x  # type: ignore[attr-defined]
    return found


WRAPPED: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda x: x,
    "number": lambda x: x.sum().item(),
    "complex number": lambda x: complex(x.sum().item(), 1.0),
    "text": lambda x: f"{x.sum().item():.3f}",
    "list of numbers": lambda x: x.tolist(),
    "list": lambda x: [1, x],
    "tuple": lambda x: (x, None),
    "dict": lambda x: {"x": x},
    "dict with other keys": lambda x: {(1, Color.RED): x, 3: None},
    "dict with an object as key": lambda x: {Plain(1): x},
    "ordered dict": lambda x: OrderedDict(x=x),
    "default dict": lambda x: defaultdict(list, x=[x]),
    "user dict": lambda x: UserDict(x=x),
    "named tuple": lambda x: Pair(1, x),
    "deque": lambda x: deque([x]),
    "set": lambda x: {x},
    "frozen set of numbers": lambda x: frozenset(x.tolist()),
    "dict values": lambda x: {"x": x}.values(),
    "dataclass": lambda x: Batch(x),
    "object": lambda x: Plain([Plain(x)]),
    "slots": lambda x: Slotted(x),
    "namespace": lambda x: types.SimpleNamespace(x=x),
    "list with an attribute": in_tagged,
    "tensor with an attribute": on_tensor,
    "exception": lambda x: ValueError(x),
    "slice": lambda x: slice(0, x),
    "array": lambda x: x.numpy(),
    "numpy scalar": lambda x: x.numpy()[0],
    "array of objects": lambda x: Plain(x.numpy().astype(object)),
    "Normal": lambda x: Normal(x, 1.0),
    "Independent": lambda x: Independent(Normal(x, 1.0), 1),
    "Categorical": lambda x: Categorical(logits=x**2),
    "TransformedDistribution": lambda x: TransformedDistribution(Normal(x, 1.0), [ExpTransform()]),
    "module": in_module,
    "closure": by_closure,
    "partial": lambda x: functools.partial(torch.add, x),
    "cycle": in_cycle,
    "sparse": lambda x: x.to_sparse(),
    "sparse rows": lambda x: torch.diag(x).to_sparse_csr(),
    "jagged": lambda x: torch.nested.as_nested_tensor([x, x[:1]], layout=torch.jagged),
    "nested": lambda x: torch.nested.as_nested_tensor([x, x[:1]]),
    "complex": lambda x: torch.complex(x, x).conj(),
    "whole numbers": lambda x: (x * 100).long(),
    "generator": by_generator,
    "iterator": lambda x: iter([x]),
    "object with an iterator": lambda x: Plain(iter([x])),
}
NOT_READ = ("generator", "iterator", "object with an iterator")


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    torch.compiler.reset()


def checked(kind: str, backend: Callable[..., Any]) -> torchsleuth.library.checking.Verdict:  # type: ignore[name-defined]
    wrap = WRAPPED[kind]
    added = torch.compiler.disable(wrap)  # made in eager of what compiled code gave

    def function(x: torch.Tensor) -> Any:
        return added(x + torch.ones(2))

    return torchsleuth.check(function, torch.tensor([1.0, 2.0]), compile={"backend": backend})


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_wrong_value_in_any_output_is_found_or_named_as_not_compared(kind: str) -> None:
    verdict = checked(kind, adds_a_tenth)
    assert not verdict
    assert "agrees" not in str(verdict)
    if kind in NOT_READ:
        assert verdict.status is Status.NOTHING_COMPARED
        assert re.search(r"; not compared: out\S* \(iterator\)", str(verdict).splitlines()[0])
    else:
        assert verdict.status is Status.WRONG
        assert any(d.path.startswith("out") and d.how == "values" for d in verdict.wrong), str(verdict)


@pytest.mark.parametrize("kind", WRAPPED)
def test_with_a_right_backend_all_that_can_be_compared_agrees(kind: str) -> None:
    verdict = checked(kind, as_it_is)
    assert not verdict.wrong, str(verdict)
    assert not verdict.report.excused, str(verdict)
    assert verdict.status is (Status.NOTHING_COMPARED if kind in NOT_READ else Status.AGREES)


@pytest.mark.parametrize(
    "make", [WRAPPED[k] for k in ("object", "dict", "Normal", "dataclass", "named tuple", "deque")]
)
def test_dynamo_makes_the_same_objects_as_eager(make: Callable[[torch.Tensor], Any]) -> None:
    verdict = torchsleuth.check(lambda x: make(x + 1), torch.ones(2), compile={"backend": as_it_is})
    assert verdict, str(verdict)


def test_what_is_not_compared_is_named_beside_what_is() -> None:
    def function(x: torch.Tensor) -> dict[str, Any]:
        return {"x": x + 1, "rest": torch.compiler.disable(iter)([x])}

    verdict = torchsleuth.check(function, torch.ones(2), compile={"backend": as_it_is})
    assert verdict
    assert str(verdict) == (
        "compiled agrees with eager: 2 values compared, forward; not compared: out['rest'] (iterator)"
    )
    assert "iterator" in verdict._repr_html_()


def test_another_type_of_container_is_another_result() -> None:
    def function(x: torch.Tensor) -> Any:
        return [x + 1] if torch.compiler.is_compiling() else (x + 1,)

    verdict = torchsleuth.check(function, torch.ones(2), compile={"backend": as_it_is})
    assert [(d.path, d.how, d.text) for d in verdict.wrong] == [("out", "type", "compiled gives a list, eager a tuple")]


def test_another_layout_is_another_result() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y if torch.compiler.is_compiling() else y.to_sparse()

    verdict = torchsleuth.check(function, torch.ones(2), compile={"backend": as_it_is})
    assert [d.how for d in verdict.wrong] == ["type"]
    assert "compiled gives a plain tensor, eager a sparse_coo tensor" in str(verdict)


@pytest.mark.parametrize("kind", ["object", "Normal", "jagged", "sparse", "set"])
def test_gradients_flow_from_tensors_inside_of_any_output(kind: str) -> None:
    """Where no tensor is found in the output there is no backward, and no gradient is compared."""
    make = torch.compiler.disable(WRAPPED[kind])
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return grads[0] * 5

    def wrong_gradient(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        return lambda *args: (Scaled.apply(next(a for a in args if isinstance(a, torch.Tensor))),)

    verdict = torchsleuth.check(lambda x: make(x * 2), x, compile={"backend": wrong_gradient})
    assert [d.path for d in verdict.wrong] == ["args[0].grad"]
    assert verdict.backward


def test_without_a_tensor_that_asks_for_gradients_in_the_output_no_backward_is_claimed() -> None:
    x = torch.ones(2, requires_grad=True)
    verdict = torchsleuth.check(lambda x: (x * 2).detach(), x, compile={"backend": as_it_is})
    assert verdict
    assert not verdict.backward
    assert str(verdict).endswith("compared, forward")


# --- what a run leaves behind ---------------------------------------------------------------------------------------


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.calls = 0
        self.last = "none"
        self.history: list[Any] = []

    def forward(self, x: torch.Tensor, change: str) -> torch.Tensor:
        by = 2 if torch.compiler.is_compiling() else 1
        if change == "number":
            self.calls += by
        elif change == "text":
            self.last = f"changed by {by}"
        elif change == "list":
            self.history.append(by)
        elif change == "parameter":
            self.weight.data.mul_(by)
        elif change == "object":
            self.last = Plain(by)  # type: ignore[assignment]
        return x + 1


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("number", "calls"),
        ("text", "last"),
        ("list", "history[0]"),
        ("parameter", "weight"),
        ("object", "last.value"),
        ("nothing", ""),
    ],
)
def test_what_is_left_in_the_model_is_compared(change: str, path: str) -> None:
    verdict = torchsleuth.check(Counting(), torch.ones(2), change, compile={"backend": as_it_is})
    assert [d.path for d in verdict.wrong] == ([path] if path else []), str(verdict)


@pytest.mark.parametrize("make", [lambda: __import__("numpy").zeros(2), lambda: Plain(__import__("numpy").zeros(2))])
def test_arrays_in_inputs_are_compared_and_stay_as_they_are(make: Callable[[], Any]) -> None:
    given = make()

    def write(given: Any) -> None:
        array = getattr(given, "value", given)
        array += 1

    def function(x: torch.Tensor, given: Any) -> torch.Tensor:
        y = x + 1
        torch.compiler.disable(write)(given)
        if torch.compiler.is_compiling():
            y = y + 0
        return y

    verdict = torchsleuth.check(function, torch.ones(2), given, compile={"backend": as_it_is})
    assert verdict, str(verdict)
    assert not verdict.report.excused
    assert getattr(given, "value", given).tolist() == [0.0, 0.0]
