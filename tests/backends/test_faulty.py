"""Faulty backends fail where and how they were told to, and nowhere else."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torchsleuth.backends import Faulty, FaultyCompileError, faulty, registered
from torchsleuth.backends.faulty import NothingPlanted
from torchsleuth.backends.faulty_source import standalone_source

SRC = Path(__file__).parents[2] / "src"
AOT = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
INNER = ["eager", *AOT]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def f(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(F.relu(x)).relu() * 2


def ones(**kwargs: Any) -> torch.Tensor:
    return torch.ones(3, 4, **kwargs)


def fault_of(backend: Any, function: Any = f, *, backward: bool = False) -> str:
    """What compiling and running does, in the words of the fault kinds; "none" where all is as in eager."""
    x, y = ones(requires_grad=backward), ones(requires_grad=backward)
    try:
        got, want = torch.compile(function, backend=backend)(x), function(y)
        if backward:
            got.sum().backward()
            want.sum().backward()
            got, want = x.grad, y.grad
    except Exception as error:
        if "cannot compile" in str(error):
            return "compile-error"
        if isinstance(getattr(error, "inner_exception", None), NothingPlanted):
            return "refused"
        return "out-of-memory" if "can't allocate memory" in str(error) else "runtime-error"
    return "none" if torch.allclose(got, want) else "accuracy"


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("kind", ["compile-error", "runtime-error", "accuracy", "out-of-memory"])
def test_each_kind_in_the_forward(kind: Any, inner: Any) -> None:
    assert fault_of(faulty("relu", kind, inner=inner)) == kind
    torch._dynamo.reset()
    assert fault_of(faulty("relu", kind, inner=inner), torch.sin) == "refused"
    torch._dynamo.reset()
    assert fault_of(faulty("relu", kind, inner=inner, may_miss=True), torch.sin) == "none"


@pytest.mark.parametrize("inner", AOT)
@pytest.mark.parametrize("kind", ["compile-error", "runtime-error", "accuracy", "out-of-memory"])
def test_each_kind_in_the_backward(kind: Any, inner: Any) -> None:
    backend = faulty("mul", kind, where="backward", inner=inner)
    assert fault_of(backend) == "none"  # the forward multiplies too
    torch._dynamo.reset()
    assert fault_of(backend, backward=True) == kind


@pytest.mark.slow
def test_a_warm_cache_does_not_hide_the_fault() -> None:
    assert fault_of("inductor") == "none"
    torch._dynamo.reset()
    assert fault_of(faulty("relu", "accuracy", inner="inductor")) == "accuracy"


def test_the_compile_error_has_a_stable_type_and_message() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(f, backend=faulty())(ones())
    cause = caught.value.inner_exception
    assert type(cause) is FaultyCompileError
    assert str(cause) == "faulty backend: cannot compile 'relu'"
    assert "backend='faulty'" in str(caught.value)


def test_non_leaf_inputs_alone_are_refused() -> None:
    assert_refuses_non_leaves(faulty("relu", "compile-error-non-leaf"))


def assert_refuses_non_leaves(backend: Any) -> None:
    leaf = ones(requires_grad=True)
    assert torch.equal(torch.compile(f, backend=backend)(leaf), f(leaf))
    torch._dynamo.reset()  # being a leaf is not guarded on
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="cannot compile 'relu'"):
        torch.compile(f, backend=backend)(leaf * 2)


@pytest.mark.parametrize(
    ("op", "inner", "hit"),
    [
        ("relu", "eager", True),
        ("relu", "aot_eager", True),
        ("relu_", "aot_eager", False),
        ("rel", "aot_eager", False),
        ("rel*", "aot_eager", True),
        ("aten.relu.default", "aot_eager", True),
        ("aten.relu", "aot_eager", True),
        ("aten::relu", "aot_eager", True),
        ("aten.relu.default", "eager", True),
        ("aten.*.default", "aot_eager", True),
        ("torch.nn.functional.relu", "eager", True),
        ("torch.tanh", "eager", True),
        ("Tensor.relu", "eager", True),
        ("operator.mul", "eager", True),
        ("mul", "eager", True),
        ("torch.relu", "eager", True),
        ("torch.relu", "aot_eager", True),
        ("torch.nn.functional.relu", "aot_eager", True),
        ("F.relu", "aot_eager", True),
        ("mylib.relu", "aot_eager", False),
    ],
)
def test_what_a_name_means(op: str, inner: Any, hit: bool) -> None:
    backend = faulty(op, inner=inner)
    assert fault_of(backend) == ("compile-error" if hit else "refused")
    torch._dynamo.reset()
    assert fault_of(standalone(backend)) == ("compile-error" if hit else "none")


def called(name: str, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    image = x.reshape(1, 1, 3, 4)
    calls = {
        "linear": lambda: F.linear(x, w),
        "conv2d": lambda: F.conv2d(image, w.reshape(1, 1, 4, 4)[..., :2, :2]),
        "matmul": lambda: torch.matmul(x, w),
        "layer_norm": lambda: F.layer_norm(x, (4,)),
        "gelu": lambda: F.gelu(x),
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(image, image, image),
    }
    return calls[name]()


NAMES = [
    (name, form)
    for name in ("linear", "conv2d", "matmul", "layer_norm", "gelu", "scaled_dot_product_attention")
    for form in ("{}", "torch.nn.functional.{}", "aten.{}")
]


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(("name", "form"), NAMES)
def test_an_operator_is_found_by_any_of_its_names_also_where_it_is_decomposed(name: str, form: str, inner: Any) -> None:
    w = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return called(name, x.sin(), w)

    want = function(x)
    backend = faulty(form.format(name), "accuracy", inner=inner)
    for planted in (backend, standalone):
        torch._dynamo.reset()
        one = planted if isinstance(planted, Faulty) else planted(backend)
        assert torch.allclose(torch.compile(function, backend=one)(x), want * 1.1, atol=1e-5)


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize(
    ("name", "module", "shape"),
    [
        ("linear", torch.nn.Linear(4, 4), (3, 4)),
        ("conv2d", torch.nn.Conv2d(1, 1, 2), (1, 1, 4, 4)),
        ("layer_norm", torch.nn.LayerNorm(4), (3, 4)),
        ("batch_norm", torch.nn.BatchNorm1d(4), (3, 4)),
        ("gelu", torch.nn.GELU(), (3, 4)),
    ],
)
def test_modules_of_torch_are_known_by_their_functions(
    name: str, module: torch.nn.Module, shape: tuple[int, ...], where: Any
) -> None:
    backend = faulty(name, "accuracy", where=where)
    x = torch.randn(shape, requires_grad=True)
    torch.compile(module, backend=backend)(x).sum().backward()
    assert backend.places == 1


def test_the_nth_of_decomposed_operators() -> None:
    w = torch.ones(4, 4)

    def three(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.linear(x, w), F.linear(x + 1, w, w[0]), F.linear(x + 2, w)

    compiled = torch.compile(three, backend=faulty("linear", "accuracy", nth=1))
    off = [not torch.allclose(a, b) for a, b in zip(compiled(ones()), three(ones()), strict=True)]
    assert off == [False, True, False]


def test_a_name_that_is_nowhere_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(f, backend=faulty("tahn", "accuracy"))(ones())
    cause = caught.value.inner_exception
    assert type(cause) is NothingPlanted
    assert str(cause).startswith("faulty backend: no fault was planted, because the forward graph has no 'tahn'")
    assert "The nearest names in it are tanh, " in str(cause)
    assert "may_miss=True" in str(cause)


def test_graphs_before_a_break_may_lack_the_operator() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.tanh()

    assert fault_of(faulty("tanh", "accuracy"), broken) == "accuracy"
    torch._dynamo.reset()
    assert fault_of(faulty("sin", "accuracy"), broken) == "accuracy"
    torch._dynamo.reset()
    assert fault_of(faulty("cos", "accuracy"), broken) == "refused"


def test_a_leading_underscore_is_not_part_of_the_name() -> None:
    assert fault_of(faulty("softmax"), lambda x: F.softmax(x, 0)) == "compile-error"


def test_the_nth_occurrence_alone() -> None:
    assert [fault_of(faulty("relu", nth=n)) for n in range(3) if not torch._dynamo.reset()] == [
        "compile-error",
        "compile-error",
        "refused",
    ]


def test_the_fault_is_planted_at_the_nth_occurrence() -> None:
    def three(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.relu(), (x + 1).relu(), (x + 2).relu()

    compiled = torch.compile(three, backend=faulty("relu", "accuracy", nth=1))
    off = [not torch.allclose(a, b) for a, b in zip(compiled(ones()), three(ones()), strict=True)]
    assert off == [False, True, False]


@pytest.mark.parametrize(
    ("ops", "needs_all", "hit"),
    [
        (("relu", "tanh"), True, True),
        (("relu", "tanh", "relu"), True, True),
        (("tanh", "relu", "tanh"), True, False),
        (("mul", "relu"), True, False),
        (("relu", "sin"), True, False),
        (("sin", "relu"), False, True),
        (("sin", "cos"), False, False),
    ],
)
def test_several_operators_in_their_order(ops: tuple[str, ...], needs_all: bool, hit: bool) -> None:
    made = faulty(ops, needs_all=needs_all)
    for backend, missed in ((made, "refused"), (standalone(faulty(ops, needs_all=needs_all)), "none")):
        torch._dynamo.reset()
        assert fault_of(backend) == ("compile-error" if hit else missed)


@pytest.mark.parametrize("inner", INNER)
def test_results_that_are_tuples_integers_or_bools_go_wrong_too(inner: Any) -> None:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = torch.max(x, 0)
        return values, places, torch.argmin(x, 0), x > 5

    for op, which in (("max", 0), ("argmin", 2), ("gt", 3)):
        for backend in (faulty(op, "accuracy", inner=inner), standalone(faulty(op, "accuracy", inner=inner))):
            torch._dynamo.reset()
            got, want = torch.compile(g, backend=backend)(ones()), g(ones())
            assert [a.dtype for a in got] == [b.dtype for b in want]
            assert not torch.equal(got[which], want[which])


def test_bodies_of_higher_order_operators_are_searched() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sin(), (x,))

    assert fault_of(faulty("relu"), g) == "compile-error"


def test_the_repr_makes_it_again() -> None:
    kinds: tuple[Any, ...] = ("compile-error", "hang")
    for op, kind, where, nth in itertools.product(("relu", ("relu", "tanh")), kinds, ("forward", "backward"), (0, 2)):
        backend = faulty(op, kind, where=where, nth=nth)  # type: ignore[arg-type]
        assert eval(repr(backend), {"faulty": faulty}) == backend
    assert repr(faulty()) == "faulty('relu', 'compile-error')"
    assert repr(faulty(["a", "b"], "hang", nth=1)) == "faulty(('a', 'b'), 'hang', nth=1)"


@pytest.mark.parametrize(
    "wrong", [{"kind": "boom"}, {"where": "sideways"}, {"nth": -1}, {"op": ()}, {"where": "backward", "inner": "eager"}]
)
def test_what_cannot_be_planted_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="faulty: "):
        faulty(**wrong)


def test_by_its_registered_name() -> None:
    registered.register()
    registered.register()
    assert fault_of("sleuth_faulty") == "compile-error"
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="'tanh' fails at run time"):
        torch.compile(f, backend="sleuth_faulty", options={"op": "tanh", "kind": "runtime-error"})(ones())


def standalone(backend: Faulty) -> Any:
    space: dict[str, Any] = {"__name__": "standalone"}
    exec(standalone_source(backend), space)
    return space["faulty"]


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("kind", ["compile-error", "runtime-error", "accuracy", "out-of-memory"])
def test_the_standalone_source_does_the_same(kind: Any, inner: Any) -> None:
    backend = faulty("relu", kind, inner=inner, nth=1)
    assert fault_of(standalone(backend)) == kind
    torch._dynamo.reset()
    assert fault_of(standalone(backend), torch.relu) == "none"


@pytest.mark.parametrize("inner", AOT)
@pytest.mark.parametrize("kind", ["compile-error", "runtime-error", "accuracy"])
def test_the_standalone_source_does_the_same_in_the_backward(kind: Any, inner: Any) -> None:
    assert fault_of(standalone(faulty("mul", kind, where="backward", inner=inner)), backward=True) == kind


def test_the_standalone_source_for_non_leaf_inputs() -> None:
    assert_refuses_non_leaves(standalone(faulty("relu", "compile-error-non-leaf")))


def test_the_standalone_source_is_short_and_keeps_the_exception_type() -> None:
    source = standalone_source(faulty())
    assert len(source.splitlines()) <= 30
    assert "torchsleuth" not in source.replace('"torchsleuth.backends.faulty"  # where torchsleuth has it', "")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(f, backend=standalone(faulty()))(ones())
    cause = type(caught.value.inner_exception)
    assert (cause.__module__, cause.__qualname__) == (FaultyCompileError.__module__, FaultyCompileError.__qualname__)


RUN = """
x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: (x.relu() * 2).sum(), backend={0})(x).backward()
"""


def program(backend: Faulty, *, alone: bool) -> str:
    if alone:
        return standalone_source(backend) + RUN.format("faulty")
    return f"import torch\nfrom torchsleuth.backends import faulty\n{RUN.format(repr(backend))}"


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("kind", ["crash", "hang"])
def test_crash_and_hang_end_the_process(kind: Any, where: Any, alone: bool) -> None:
    backend = faulty("mul", kind, where=where)
    environment = {} if alone else {"PYTHONPATH": str(SRC)}
    command = [sys.executable, *(["-I"] if alone else []), "-c", program(backend, alone=alone)]
    child = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    if kind == "crash":
        _, errors = child.communicate(timeout=120)
        assert child.returncode == -signal.SIGSEGV, errors
        return
    with pytest.raises(subprocess.TimeoutExpired):
        child.communicate(timeout=20)
    child.kill()
    assert "Error" not in child.communicate()[1]


@pytest.mark.slow
@pytest.mark.parametrize(("op", "where"), [("relu", "forward"), ("threshold_backward", "backward")])
def test_in_a_t5(op: str, where: Any) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config)
    words = torch.arange(8).reshape(1, 8)
    torch.compile(model, backend=faulty("tan", where=where, may_miss=True))(
        input_ids=words, labels=words
    ).loss.backward()
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=f"cannot compile '{op}'"):
        torch.compile(model, backend=faulty(op, where=where))(input_ids=words, labels=words).loss.backward()
