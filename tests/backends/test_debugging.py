"""Debugging backends on real torch: right models pass everywhere, wrong operators are caught and named."""

from __future__ import annotations

import contextlib
import copy
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from torchsleuth.backends import (
    FakeCheck,
    GraphRaised,
    Recipe,
    SchemaCheck,
    WrongFakeKernel,
    WrongSchema,
    compose,
    debugging,
)
from torchsleuth.backends.operator_mode import OperatorMode
from torchsleuth.backends.recipes import RECIPES

pytestmark = pytest.mark.slow

NAMESPACE = "sleuth_test"
TOGETHER = {
    "all of AOT": compose("sleuth_aot_decomp", "sleuth_aot_min_cut", "sleuth_fake", "sleuth_schema"),
    "checked invoke_subgraph": compose("sleuth_invoke_subgraph", "sleuth_fake", "sleuth_schema"),
    "checked torchscript": compose("sleuth_torchscript", "sleuth_fake", "sleuth_schema", capture="dynamo"),
    "checked before dispatch": compose(
        "sleuth_pre_dispatch", "sleuth_fake", "sleuth_schema", "sleuth_eager_marked", capture="pre_dispatch"
    ),
    "core decompositions": compose("sleuth_aot_decomp", decompositions="core"),
}
EVERY = [*((name, name) for name in RECIPES), *TOGETHER.items()]


@pytest.fixture(autouse=True, scope="module")
def known_names() -> None:
    debugging.register()  # also where torchsleuth is only on the path; the page's examples need it installed


@pytest.fixture(autouse=True)
def ours_to_find() -> Iterator[None]:
    """Under CI=true torch raises an error of its own where an operator aliases unsaid; elsewhere it warns."""
    from torch._functorch import config

    known = hasattr(config, "error_on_custom_op_aliasing")  # torch 2.11 may not have it
    with config.patch(error_on_custom_op_aliasing=False) if known else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Model(torch.nn.Module):
    """Views, a list of them, writes to its input and to a buffer, running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4 * 36, 5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.calls.add_(1)
        x.mul_(1.5)
        hidden = torch.relu(self.norm(self.conv(x))).flatten(1)
        first, *_ = F.log_softmax(self.head(hidden), -1).split(2, -1)
        return first.reshape(-1), x[0]


def observed(run: Callable[..., Any], model: Model) -> list[torch.Tensor]:
    """Outputs, what was written to, gradients."""
    x = torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8)
    out = run(x)
    out[0].square().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [t.detach().clone() for t in (*out, x, *model.buffers(), *gradients)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", [b for _, b in EVERY], ids=[name for name, _ in EVERY])
def test_a_right_model_is_as_in_eager(backend: Any, dynamic: bool) -> None:
    torch.manual_seed(0)
    plain = Model()
    model = copy.deepcopy(plain)
    want = observed(plain, plain)
    got = observed(torch.compile(model, backend=backend, dynamic=dynamic), model)
    assert len(want) == 13
    torch.testing.assert_close(got, want, **near(backend))


@pytest.mark.parametrize("backend", [b for _, b in EVERY], ids=[name for name, _ in EVERY])
def test_a_right_model_in_inference(backend: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.LayerNorm(4)).eval()
    x = torch.randn(3, 4)
    for mode in (torch.no_grad, torch.inference_mode):
        torch._dynamo.reset()
        with mode():
            torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x), **near(backend))


def test_what_is_nudged_moves_forward_and_backward() -> None:
    def run(function: Callable[..., Any]) -> list[torch.Tensor]:
        x = torch.linspace(-1, 1, 1000).requires_grad_()
        out = function(x)
        out.backward()
        assert x.grad is not None
        return [out.detach(), x.grad]

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sin().sum()

    moved = run(torch.compile(f, backend="sleuth_nudged"))
    for one, other in zip(run(f), moved, strict=True):
        assert not torch.equal(one, other)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def near(backend: Any) -> dict[str, float]:
    """What is moved on purpose may be apart; where nothing is, torch's own tolerances hold."""
    return {"rtol": 1e-4, "atol": 1e-3} if backend == "sleuth_nudged" else {}


# --- operators to be caught ----------------------------------------------------------------------------------------


@pytest.fixture
def define() -> Iterator[Callable[..., Any]]:
    """Registers NAMESPACE::NAME with a schema, a kernel and a fake kernel, for one test."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")

    def registered(schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> Any:
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        return getattr(getattr(torch.ops, NAMESPACE), name)

    yield registered
    library._destroy()


def new_like(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x)


WRONG_SCHEMAS = {
    "an unsaid write": (
        "scale(Tensor x, float factor) -> Tensor",
        lambda x, factor: x.mul_(factor).clone(),
        new_like,
        (2.0,),
        "the kernel writes to its argument 'x'",
    ),
    "an unsaid alias": (
        "same(Tensor x) -> Tensor",
        lambda x: x.view(-1).view(x.shape),
        new_like,
        (),
        "the kernel gives memory of its argument 'x' as result",
    ),
    "results that share": (
        "twice(Tensor x) -> (Tensor, Tensor)",
        lambda x: (y := x * 2, y[:1])[:2],
        lambda x: (torch.empty_like(x), torch.empty_like(x[:1])),
        (),
        "the kernel gives the same memory twice, as result 0 and result 1",
    ),
    "the other argument": (
        "into(Tensor x, Tensor(a!) y) -> ()",
        lambda x, y: (y.copy_(x), x.zero_(), None)[2],
        lambda x, y: None,
        (torch.ones(2, 3),),
        "the kernel writes to its argument 'x'",
    ),
}


class TestWrongSchema:
    @pytest.mark.parametrize("backend", ["sleuth_schema", compose("sleuth_schema", "sleuth_aot_decomp")], ids=str)
    @pytest.mark.parametrize("case", WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS)
    def test_is_named_with_the_line(self, define: Callable[..., Any], case: Any, backend: Any) -> None:
        schema, kernel, fake, rest, difference = case
        operator = define(schema, kernel, fake)

        def f(x: torch.Tensor) -> Any:
            y = x + 1
            found = operator(y, *rest)  # here
            return found, y.sin()

        with pytest.raises(WrongSchema) as told:
            torch.compile(f, backend=backend)(torch.ones(2, 3))
        name = schema.partition("(")[0]
        assert told.value.operator == f"{NAMESPACE}.{name}.default"
        assert told.value.difference == f"{difference}; the schema does not say so: {NAMESPACE}::{schema}"
        assert told.value.source is not None
        assert (told.value.source.file, told.value.source.code) == (__file__, "found = operator(y, *rest)  # here")
        assert "test_debugging.py" in str(told.value)

    def test_what_is_said_is_allowed(self, define: Callable[..., Any]) -> None:
        write = define("scale_(Tensor(a!) x, float f) -> ()", lambda x, f: (x.mul_(f), None)[1], lambda x, f: None)
        view = define("row(Tensor(a) x) -> Tensor(a)", lambda x: x[0], lambda x: x[0])
        views = define("rows(Tensor(a -> *) x) -> Tensor(a)[]", lambda x: list(x.unbind()), lambda x: list(x.unbind()))

        def f(x: torch.Tensor) -> Any:
            y = x + 1
            write(y, 3.0)
            return view(y) + views(y)[1]

        with SchemaCheck():
            got = f(torch.ones(2, 3))
        torch.testing.assert_close(got, torch.full((3,), 12.0))
        torch.testing.assert_close(torch.compile(f, backend="sleuth_schema")(torch.ones(2, 3)), got)

    def test_alone_in_eager(self, define: Callable[..., Any]) -> None:
        operator = define("same(Tensor x) -> Tensor", lambda x: x.view(-1), lambda x: x.new_empty(x.numel()))
        with SchemaCheck(), pytest.raises(WrongSchema) as told:
            operator(torch.ones(3))  # the line
        assert told.value.source is not None
        assert told.value.source.code == "operator(torch.ones(3))  # the line"

    def test_a_custom_op_that_says_it_writes_nothing(self) -> None:
        @torch.library.custom_op(f"{NAMESPACE}::bump", mutates_args=())
        def bump(x: torch.Tensor) -> torch.Tensor:
            return x.add_(1).clone()

        bump.register_fake(new_like)
        with pytest.raises(WrongSchema, match=f"{NAMESPACE}.bump.default: the kernel writes to its argument 'x'"):
            torch.compile(lambda x: bump(x) + x, backend="sleuth_schema")(torch.ones(3))


WRONG_FAKES = {
    "shape": (lambda x: x.t().contiguous(), new_like, "shape (2, 3)", "(3, 2)"),
    "dtype": (lambda x: x.double(), new_like, "dtype torch.float32", "torch.float64"),
    "stride": (lambda x: x.t().contiguous().t(), new_like, "stride (3, 1)", "(1, 2)"),
    "device": (lambda x: x.clone(), lambda x: torch.empty_like(x, device="meta"), "device meta", "cpu"),
    "rank": (lambda x: x.reshape(-1), new_like, "shape (2, 3)", "(6,)"),
}


class TestWrongFakeKernel:
    @pytest.mark.parametrize("backend", ["sleuth_fake", compose("sleuth_fake", capture="dynamo")], ids=str)
    @pytest.mark.parametrize("case", WRONG_FAKES.values(), ids=WRONG_FAKES)
    def test_is_named_with_both_answers(self, define: Callable[..., Any], case: Any, backend: Any) -> None:
        kernel, fake, said, seen = case
        operator = define("op(Tensor x) -> Tensor", lambda x: kernel(x).clone(), fake)

        def f(x: torch.Tensor) -> torch.Tensor:
            return operator(x + 1)  # type: ignore[no-any-return]

        with pytest.raises(WrongFakeKernel) as told:
            torch.compile(f, backend=backend)(torch.ones(2, 3))
        assert told.value.operator == f"{NAMESPACE}.op.default"
        assert told.value.difference == f"the fake kernel says {said}, the real one gave {seen}"
        assert told.value.source is not None
        assert told.value.source.code.startswith("return operator(x + 1)")

    def test_in_the_backward(self) -> None:
        @torch.library.custom_op(f"{NAMESPACE}::slope", mutates_args=())
        def slope(g: torch.Tensor) -> torch.Tensor:
            return g.t().contiguous().t()

        slope.register_fake(new_like)

        @torch.library.custom_op(f"{NAMESPACE}::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(new_like)
        twice.register_autograd(lambda ctx, g: slope(g * 2))
        x = torch.ones(2, 3, requires_grad=True)
        compiled = torch.compile(lambda x: twice(x).sin(), backend="sleuth_fake")
        out = compiled(x)
        with pytest.raises(WrongFakeKernel, match=f"{NAMESPACE}.slope.default: the fake kernel says stride"):
            out.sum().backward()
        with FakeCheck():
            out = twice(x).sin()
            with pytest.raises(WrongFakeKernel, match=f"{NAMESPACE}.slope.default: the fake kernel says stride"):
                out.sum().backward()

    def test_one_of_several_results(self, define: Callable[..., Any]) -> None:
        operator = define(
            "two(Tensor x) -> (Tensor, Tensor)",
            lambda x: (x + 1, x.sum(0)),
            lambda x: (torch.empty_like(x), torch.empty_like(x)),
        )
        with FakeCheck(), pytest.raises(WrongFakeKernel, match=r"result 1: the fake kernel says shape \(2, 3\)"):
            operator(torch.ones(2, 3))

    def test_a_fake_kernel_that_raises(self, define: Callable[..., Any]) -> None:
        def refuse(x: torch.Tensor) -> torch.Tensor:
            raise ValueError("not for two dimensions\nand more")

        operator = define("op(Tensor x) -> Tensor", lambda x: x + 1, refuse)
        with FakeCheck(), pytest.raises(WrongFakeKernel) as told:
            operator(torch.ones(2, 3))
        assert told.value.difference == (
            "the fake kernel raises ValueError: not for two dimensions; the real one did not raise"
        )

    def test_sizes_that_data_decide_are_nobodys_mistake(self, define: Callable[..., Any]) -> None:
        def chosen(x: torch.Tensor) -> torch.Tensor:
            return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])

        operator = define("positive(Tensor x) -> Tensor", lambda x: x[x[:, 0] > 0], chosen)
        with FakeCheck():
            assert operator(torch.tensor([[1.0, 2], [-1, 3]])).shape == (1, 2)
            assert torch.nonzero(torch.ones(3)).shape == (3, 1)

    def test_an_operator_without_a_fake_kernel_is_left_alone(self) -> None:
        library = torch.library.Library(NAMESPACE, "FRAGMENT")
        library.define("bare(Tensor x) -> Tensor")
        library.impl("bare", lambda x: x + 1, "CPU")
        try:
            with FakeCheck():
                torch.ops.sleuth_test.bare(torch.ones(2))
        finally:
            library._destroy()


def test_both_checks_together_find_both_faults(define: Callable[..., Any]) -> None:
    shared = define("same(Tensor x) -> Tensor", lambda x: x.view(x.shape), new_like)
    shaped = define("op(Tensor x) -> Tensor", lambda x: x.t().clone(), new_like)
    both = compose("sleuth_schema", "sleuth_fake", "sleuth_aot_decomp")
    for operator, error in ((shared, WrongSchema), (shaped, WrongFakeKernel)):
        torch._dynamo.reset()
        with pytest.raises(error):
            torch.compile(lambda x: operator(x + 1), backend=both)(torch.ones(2, 3))  # noqa: B023


def test_operators_in_branches_are_checked(define: Callable[..., Any]) -> None:
    operator = define("op(Tensor x) -> Tensor", lambda x: x.t().contiguous().t(), new_like)

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: operator(x + 1), lambda x: x - 1, (x,))

    with pytest.raises(WrongFakeKernel):
        torch.compile(f, backend="sleuth_fake")(torch.ones(2, 3))


# --- the others ------------------------------------------------------------------------------------------------------


def test_marked_names_the_operator_and_the_line() -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, i)  # out of range

    with pytest.raises(GraphRaised) as told:
        torch.compile(f, backend="sleuth_eager_marked")(torch.ones(3), torch.tensor([7]))
    assert told.value.operator == "Tensor.index_select"
    assert isinstance(told.value.__cause__, IndexError)
    assert told.value.source is not None
    assert told.value.source.code == "return x.index_select(0, i)  # out of range"


def test_what_the_graph_does_not_raise_is_not_marked() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        raise KeyError("mine") if y.sum() > 0 else ValueError("other")

    with pytest.raises(KeyError, match="mine"):
        torch.compile(f, backend="sleuth_eager_marked")(torch.ones(3))


def test_an_unmarked_exception_is_the_programs_own() -> None:
    with pytest.raises(IndexError) as told:
        torch.compile(lambda x, i: x[i], backend="sleuth_schema")(torch.ones(3), torch.tensor([7]))
    assert "While executing" not in str(told.value)


class Names(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_several_function_modes_see_the_calls_of_the_graph() -> None:
    inner, outer = Names(), Names()
    compiled = torch.compile(
        lambda x: x.sin().cos(), backend="sleuth_function_modes", options={"modes": [outer, inner]}
    )
    compiled(torch.ones(3))
    assert inner.seen == outer.seen == ["sin", "cos"]


def test_a_dispatch_mode_sees_forward_and_backward() -> None:
    seen: list[str] = []

    class Record(OperatorMode):
        def checked(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            seen.append(str(operator))
            return super().checked(operator, args, kwargs)

    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(torch.sin, backend="sleuth_aot_dispatch_modes", options={"modes": [Record]})
    compiled(x).sum().backward()
    assert [name for name in seen if "detach" not in name] == [
        "aten.sin.default",
        "aten.cos.default",
        "aten.mul.Tensor",
    ]


def test_decompositions_of_ones_own() -> None:
    table = {torch.ops.aten.sin.default: lambda x: x.cos()}
    compiled = torch.compile(torch.sin, backend="sleuth_aot_decomp", options={"decompositions": table})
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).cos())


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x.sin()
    return y + x


@pytest.mark.parametrize("backend", [b for _, b in EVERY], ids=[name for name, _ in EVERY])
def test_gradients_switched_off_in_the_graph(backend: Any) -> None:
    recipe = backend if isinstance(backend, Recipe) else RECIPES[backend]
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(without_gradients, backend=backend)
    if (recipe.run, recipe.capture) == ("torchscript", "dynamo"):
        with pytest.raises(Exception, match=r"NotScriptable: TorchScript cannot script .*_set_grad_enabled"):
            compiled(x)
        return
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(3))


def test_transforms_are_refused_where_they_would_be_lost() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row.sin().sum())(x)

    x = torch.ones(2, 3)
    with pytest.raises(Exception, match=r"NotTraceable: this graph has a vmap of torch\.func in it"):
        torch.compile(f, backend="sleuth_pre_dispatch")(x)
    for name in set(RECIPES) - {"sleuth_pre_dispatch", "sleuth_torchscript"}:
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(f, backend=name)(x), f(x))


def test_a_wrong_option_is_told_by_torch_compile() -> None:
    with pytest.raises(Exception, match="there is no option 'mods'; there are capture"):
        torch.compile(torch.sin, backend="sleuth_eager", options={"mods": []})(torch.ones(3))


def test_a_recipe_is_a_backend() -> None:
    assert torch.equal(torch.compile(torch.sin, backend=Recipe(capture="aot"))(torch.ones(3)), torch.ones(3).sin())


PAGE = Path(__file__).parents[2] / "docs" / "backends.md"


@pytest.mark.parametrize("name", ["scale.py", "transposed.py"])
def test_the_page_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    _, _, after = PAGE.read_text(encoding="utf-8").partition(f"(`{name}`):")
    _, source, _, shown, _ = after.split("```", 4)
    (tmp_path / name).write_text(source.removeprefix("python\n"))
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-3:] == shown.strip().splitlines()
