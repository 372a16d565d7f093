"""For each of the commonest breaks: the advice is applied as it is given, and the break is gone.

Also `torchsleuth.explain` and `explain_with` themselves, since they are the shortest way to ask.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torchsleuth

pytestmark = pytest.mark.slow

log = logging.getLogger("program")
lock = threading.Lock()
Function = Callable[..., Any]
TENSOR = torch.ones(3)


@contextlib.contextmanager
def setting(name: str, value: Any = True) -> Iterator[None]:
    config = torch._dynamo.config
    before = getattr(config, name)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)


@contextlib.contextmanager
def added(name: str, function: Function) -> Iterator[None]:
    chosen = getattr(torch._dynamo.config, name)
    chosen.add(function)
    try:
        yield
    finally:
        chosen.remove(function)


def explained(fn: Function, *args: Any) -> Any:
    return torchsleuth.explain(fn, backend="eager")(*args)


def reasons(fn: Function, *args: Any) -> list[str]:
    return [b["reason"] for b in explained(fn, *(args or (TENSOR,))).break_reasons]


def advice(fn: Function, *args: Any) -> str:
    (found,) = explained(fn, *(args or (TENSOR,))).break_reasons
    return str(found["advice"])


def test_print() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("here")
        return y * 2

    assert "reorderable_logging_functions.add(print)" in advice(f)
    with added("reorderable_logging_functions", print):
        assert reasons(f) == []


def test_item() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    def kept_a_tensor(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum()

    assert "Keep the value a tensor" in advice(f)
    assert "capture_scalar_outputs = True" in advice(f)
    assert reasons(kept_a_tensor) == []
    with setting("capture_scalar_outputs"):
        assert reasons(f) == []


def test_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.sum() > 0, x + 1, x - 1)

    def with_cond(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))  # type: ignore[no-any-return]

    assert "torch.where" in advice(f)
    assert "torch.cond" in advice(f)
    assert reasons(chosen) == reasons(with_cond) == []


def test_builtin() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        hash(y)
        open("/dev/null").close  # noqa: B018, SIM115
        return y * 2

    def handed_in(x: torch.Tensor, file: Any) -> torch.Tensor:
        return (x + 1) * 2

    assert any("Call open() outside the compiled function" in b["advice"] for b in explained(f, TENSOR).break_reasons)
    with open("/dev/null") as file:
        assert reasons(handed_in, TENSOR, file) == []


def test_context_manager() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with lock:
            return x * 2

    def without(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert "outside the compiled function, around the call" in advice(f)
    with lock:
        assert reasons(without) == []


def test_function_that_is_not_python() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        time.perf_counter_ns()
        time.sleep(0)
        return y * 2

    @torch.library.custom_op("torchsleuth_tests::nap", mutates_args=())
    def nap(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0)
        return x.clone()

    @nap.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return nap(x + 1) * 2  # type: ignore[no-any-return]

    assert any("torch.library.custom_op" in b["advice"] for b in explained(f, TENSOR).break_reasons)
    assert reasons(wrapped) == []


def test_function_that_makes_a_constant() -> None:
    @torch.compiler.assume_constant_result
    def now() -> float:
        return time.time()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * time.time()

    def constant(x: torch.Tensor) -> torch.Tensor:
        return x * now()

    assert "assume_constant_result" in advice(f)
    assert reasons(constant) == []


def test_explicit_break() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    def removed(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2

    assert advice(f) == "Remove the call of torch._dynamo.graph_break()."
    assert reasons(removed) == []


def test_disabled() -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x + 3

    off = torch.compiler.disable(plain)
    assert "Take torch.compiler.disable off" in advice(lambda x: off(x * 2) + 1)
    assert reasons(lambda x: plain(x * 2) + 1) == []


def test_size_that_depends_on_data() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x) + 1

    assert "capture_dynamic_output_shape_ops = True" in advice(f)
    with setting("capture_dynamic_output_shape_ops"):
        assert reasons(f) == []


def test_logging() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        log.info("here")
        return y * 2

    assert "ignore_logging_functions.add(logger.warning)" in advice(f)
    with added("ignore_logging_functions", log.info):
        assert reasons(f) == []


def test_deepcopy() -> None:
    assert ".clone()" in advice(lambda x: copy.deepcopy(x + 1) * 2)
    assert reasons(lambda x: (x + 1).clone() * 2) == []


def test_rnn() -> None:
    lstm = torch.nn.LSTM(3, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        return lstm(x)[0] * 2  # type: ignore[no-any-return]

    (found,) = {b["advice"] for b in explained(f, torch.ones(1, 1, 3)).break_reasons}
    assert "allow_rnn = True" in found
    with setting("allow_rnn"):
        assert reasons(f, torch.ones(1, 1, 3)) == []


# --- what is given back -------------------------------------------------------------------------------------------


def test_the_explanation_agrees_with_torchs_own() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return torch.sin(y) * 2

    found = explained(f, TENSOR)
    torch._dynamo.reset()
    torchs = torch._dynamo.explain(f)(TENSOR)
    assert (found.graph_count, found.break_count, found.op_count) == (
        torchs.graph_count, torchs.graph_break_count, torchs.op_count,
    )  # fmt: skip
    assert found.ops_per_graph == (("relu", "add"), ("sin", "mul"))
    assert any("TENSOR_MATCH" in guard for guard in found.guards)
    assert found.compile_times["Dynamo"] > 0
    assert found.recompiles == ()
    torch.testing.assert_close(found.value, f(TENSOR))


def test_it_prints_and_shows() -> None:
    found = explained(lambda x: x.sum().item(), TENSOR)
    assert str(found).startswith("torchsleuth: ")
    assert "Tensor.item()" in str(found)
    assert "<table>" in found._repr_html_()


def test_a_backend_that_explains_goes_with_any_backend() -> None:
    seen = []

    def mine(graph: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        seen.append(graph)
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    torch._dynamo.reset()
    with torchsleuth.explain_with(mine) as backend:
        compiled = torch.compile(f, backend=backend)
        for size in (3, 3, 5):
            torch.testing.assert_close(compiled(torch.ones(size)), f(torch.ones(size)))
        found = backend.explanation()
    assert len(seen) == found.graph_count == 4
    assert [(b["reason"], b["count"]) for b in found.break_reasons] == [("torch._dynamo.graph_break()", 3)]
    assert [r["values"] for r in found.recompiles] == [["3", "5"], ["3", "5"]]
    torch._dynamo.reset()
    torch.compile(f, backend="eager")(torch.ones(3))
    assert backend.explanation().graph_count == 4  # closed: it hears no more


def test_the_room_of_the_same_name_does_not_hide_the_function() -> None:
    room: Any = importlib.import_module("torchsleuth.explain")  # what `torchsleuth.explain` is when it comes first
    assert room(lambda x: x + 1, backend="eager")(TENSOR).graph_count == 1
