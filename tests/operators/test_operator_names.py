"""Names of operators: each spelling is parsed to the same parts, and the callers that read names agree on them."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st

from torchsleuth import torch_api
from torchsleuth.backends import Faulty
from torchsleuth.backends.faulty_match import bare_name
from torchsleuth.backends.faulty_source import standalone_source
from torchsleuth.judge.generated import noted_by
from torchsleuth.operators.names import TORCH_NAMESPACES, OperatorName, aten_name, base_name, name_of, parse

WORD = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
REGISTERED = st.builds(OperatorName, WORD, WORD, st.one_of(st.just(""), WORD))
# A path that begins with a namespace of torch.ops is the name of a registered operator.
SCOPES = (
    st.lists(WORD, max_size=3)
    .map(".".join)
    .filter(
        lambda scope: scope.split(".")[0] not in TORCH_NAMESPACES and not scope.startswith(("torch.ops", "torch._ops"))
    )
)
FUNCTIONS = st.builds(OperatorName, WORD.filter(lambda word: word != "default"), scope=SCOPES)


@given(st.one_of(REGISTERED, FUNCTIONS))
def test_a_name_is_the_same_after_a_round_trip(name: OperatorName) -> None:
    assert parse(name.dotted) == name


@given(REGISTERED)
def test_every_spelling_of_a_registered_operator_has_the_same_parts(name: OperatorName) -> None:
    overload = f".{name.overload}" if name.overload else ""
    assert parse(f"{name.qualified}{overload}") == name
    assert parse(f"torch._ops.{name.namespace}.{name.name}{overload}") == name
    if name.namespace in TORCH_NAMESPACES or name.overload == "default":
        assert parse(f"{name.namespace}.{name.name}{overload}") == name


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("torch.nn.functional.relu", "relu"),
        ("torch.ops.aten.relu.default", "relu"),
        ("torch.ops.aten.relu", "relu"),
        ("aten.cummin.default", "cummin"),
        ("aten::index_put_", "index_put"),
        ("aten::add_.Tensor", "add"),
        ("prims.convert_element_type.default", "convert_element_type"),
        ("torch.ops.mylib.foo.default", "foo"),
        ("torch.ops.mylib.foo.Tensor", "foo"),
        ("mylib.foo.default", "foo"),
        ("mylib::foo", "foo"),
        ("operator.add", "add"),
        ("operator.and_", "and"),
        ("__and__", "and"),
        ("extern_kernels.mm", "mm"),
        ("mypackage.ops.functions.scale", "scale"),
    ],
)
def test_an_operator_is_known_by_its_base_name(target: str, word: str) -> None:
    assert base_name(target) == word


@pytest.mark.parametrize(
    ("target", "custom"),
    [
        ("torch.ops.mylib.foo.default", True),
        ("torch.ops.aten.add.Tensor", False),
        ("torch.ops.higher_order.cond", False),
        ("mylib.foo", False),  # a Python function
    ],
)
def test_a_custom_operator_is_registered_and_not_torchs_own(target: str, custom: bool) -> None:
    assert parse(target).is_custom is custom


@pytest.fixture(scope="module")
def custom_operator() -> object:
    library = torch.library.Library("operator_names_test", "FRAGMENT")
    library.define("foo(Tensor x) -> Tensor")
    yield torch.ops.operator_names_test.foo.default
    library._destroy()


def faulty_script_name(function: object) -> str:
    """What `bare` answers in the script of a faulty backend."""
    scope: dict[str, object] = {}
    exec(standalone_source(Faulty("relu", "accuracy", inner="eager")), scope)
    return scope["bare"](node(function))  # type: ignore[operator]


def node(function: object) -> torch.fx.Node:
    graph = torch.fx.Graph()
    method = isinstance(function, str)
    return graph.call_method(function, ()) if method else graph.call_function(function, ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (torch.relu, "relu"),
        (F.relu, "relu"),
        (torch.ops.aten.relu.default, "relu"),
        (torch.ops.aten.relu_.default, "relu_"),
        (torch.ops.aten._softmax.default, "_softmax"),
        (torch.ops.aten.add, "add"),
        (torch.ops.higher_order.cond, "cond"),
        (operator.add, "add"),
        (operator.and_, "and_"),
        ("relu_", "relu_"),
    ],
)
def test_callers_that_read_names_agree(function: object, word: str) -> None:
    found = name_of(function)
    assert found.name == word
    assert bare_name(node(function)) == faulty_script_name(function) == word.lstrip("_")
    qualified = function if isinstance(function, str) else torch_api.qualified_name(function)
    assert base_name(qualified) == base_name(str(function) if found.namespace else found.dotted) == found.base


def test_callers_agree_on_an_operator_that_the_user_registered(custom_operator: object) -> None:
    graph_name = torch_api.qualified_name(custom_operator)
    assert base_name(graph_name) == base_name(str(custom_operator)) == name_of(custom_operator).base == "foo"
    assert bare_name(node(custom_operator)) == faulty_script_name(custom_operator) == "foo"
    assert aten_name(graph_name) == "", "make_fallback of aten.foo would be of another operator"


def test_a_kernel_of_a_custom_operator_is_noted_by_its_name(tmp_path) -> None:
    wrapper = tmp_path / "wrapper.py"
    call = "    buf0 = torch.ops.mylib.foo.default(arg0)"
    wrapper.write_text(
        f"async_compile = AsyncCompile()\n    # Original ATen: [mylib.foo.default, prims.sin.default]\n{call}\n"
    )
    assert noted_by(f'  File "{wrapper}", line 3, in call').operators == "foo_sin"
