"""A graph written as text, and read back, is the same graph: whatever FX can hold."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from case_helpers import exactly, graph_of, relu_graph, through_text
from hypothesis import HealthCheck, given, settings, strategies as st

from torchsleuth.case import from_torch, graph_text
from torchsleuth.case.expressions import read, show
from torchsleuth.case.ir import Graph, Made, Name, Node, Op, Ref, Source, Unknown, Value, inputs_of, operators
from torchsleuth.errors import DamagedCase

Draw = Callable[[st.SearchStrategy[Any]], Any]

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

TEXTS = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    [
        "",
        "'",
        '"',
        "'''",
        '"""',
        "\n",
        "\r\n",
        "\\",
        "\\n",
        "\x00",
        "\u2028",
        "é",
        "名",
        "\ud800",
        "# body: x",
        "{x}",
        "🦜",
    ]
)
NUMBERS = (
    st.integers()
    | st.sampled_from([2**63, -(2**63), 2**64, 10**300, -1, 0])
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-320])
    | st.complex_numbers(allow_nan=True, allow_infinity=True)
    | st.sampled_from([complex(0.0, -0.0), complex(-0.0, float("nan")), complex(float("-inf"), 1.0)])
    | st.booleans()
)
NAMES = st.sampled_from(
    [
        "torch.float32", "torch.bfloat16", "torch.bool", "torch.float8_e4m3fn", "torch.complex64", "torch.uint8",
        "torch.strided", "torch.sparse_coo", "torch.jagged", "torch.contiguous_format", "torch.channels_last",
        "torch.preserve_format", "torch.per_tensor_affine", "torch._C._SDPBackend.MATH", "torch.relu",
        "torch.ops.aten.add.Tensor", "torch.ops.aten.random_.from", "torch.ops.higher_order.cond", "operator.add",
        "len",
    ]
).map(Name)  # fmt: skip
SIZES = st.lists(st.integers(-1, 9), max_size=3)
MADE = st.one_of(
    st.sampled_from(
        [Made("torch.device", ("cpu",)), Made("torch.device", ("cuda", 1)), Made("torch.Generator", ("cpu",))]
    ),
    SIZES.map(lambda sizes: Made("torch.Size", (sizes,))),
    st.tuples(st.integers(), st.integers(), st.integers(1, 5)).map(lambda t: Made("range", t)),
)
LEAVES = st.none() | NUMBERS | TEXTS | st.just(...) | NAMES | MADE | TEXTS.map(Unknown)
HASHABLE = st.none() | st.booleans() | st.integers() | TEXTS | NAMES | st.floats(allow_nan=False)


def plain_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.builds(slice, inner, inner, inner)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return plain_containers(inner) | st.dictionaries(HASHABLE, inner, max_size=3)


WORDS = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True) | st.sampled_from(
    # Names that mean something else in the text, or that Python would fold into others.
    [
        "torch",
        "self",
        "operator",
        "math",
        "unknown",
        "value",
        "getattr",
        "slice",
        "float",
        "class",
        "None",
        "len",
        "ﬁ",
        "名",
    ]
)
PATHS = st.sampled_from(
    ["w", "a.b", "layers.0.weight", "layers.10", "_tensor_constant0", "true_graph_0", "for.in", "a b", "0"]
)
FUNCTIONS = st.sampled_from(
    [
        "torch.relu", "torch.nn.functional.silu", "operator.getitem", "_operator.add", "math.floor", "max",
        "torch.ops.aten.add.Tensor", "torch.ops.aten.random_.from", "torch.ops.aten.__and__.Tensor",
        "torch.ops.higher_order.cond", "torch._C._nn.gelu", "torch.Tensor.add_", "torch.sym_max",
        "unknown_function.<lambda>", "unknown_function.apply", "unknown_function.it's",
    ]
)  # fmt: skip
METHODS = st.sampled_from(["relu", "add_", "__add__", "view", "to", "from", "import"])
SOURCES = st.builds(Source, TEXTS, st.integers(0, 10**6), TEXTS, TEXTS, TEXTS)
SYMBOLS = st.integers(0, 2**40) | st.sampled_from(["s77", "2*s77 + 1", "(s0//2)", "Max(1, u0)", "s1**2"])
VALUES = st.builds(
    Value,
    st.sampled_from(["torch.float32", "torch.int64", "torch.float8_e5m2", 'torch."odd\n']),
    st.lists(SYMBOLS, max_size=4).map(tuple),
    st.none() | st.lists(SYMBOLS, max_size=4).map(tuple),
    st.sampled_from(["cpu", "cuda:0", "meta", '"']),
)


@st.composite
def arguments(draw: Draw, names: list[str]) -> Any:
    leaves = LEAVES | st.sampled_from(names).map(Ref) if names else LEAVES
    return draw(st.recursive(leaves, containers, max_leaves=6))


@st.composite
def tails(draw: Draw, node: Node, extras: bool) -> Node:
    if not extras:
        return node
    return replace(
        node,
        value=draw(st.none() | VALUES),
        source=draw(st.none() | SOURCES),
        tags=draw(st.dictionaries(TEXTS, st.recursive(LEAVES, containers, max_leaves=4), max_size=2)),
    )


@st.composite
def calls(draw: Draw, name: str, names: list[str]) -> Node:
    op = draw(st.sampled_from([Op.CALL_FUNCTION, Op.CALL_METHOD, Op.CALL_MODULE, Op.GET_ATTR]))
    if op is Op.GET_ATTR:
        return Node(name, op, draw(PATHS))
    args = tuple(draw(st.lists(arguments(names), max_size=3)))
    if op is Op.CALL_METHOD:
        # Of a value: a method of a dtype or layout would read as a function of that dotted name.
        args = (draw(arguments(names).filter(lambda value: not isinstance(value, Name))), *args[:2])
    kwargs = draw(st.dictionaries(WORDS | st.sampled_from(["from", "a-b", "ä"]), arguments(names), max_size=2))
    target = draw({Op.CALL_FUNCTION: FUNCTIONS, Op.CALL_METHOD: METHODS, Op.CALL_MODULE: PATHS}[op])
    return Node(name, op, target, args, kwargs)


@st.composite
def graphs(draw: Draw, depth: int = 3) -> Graph:
    names = draw(st.lists(WORDS, min_size=1, max_size=8, unique=True))
    inputs = draw(st.integers(0, len(names) - 1))
    nodes: list[Node] = []
    for i, name in enumerate(names[:-1]):
        if i < inputs:
            default = draw(st.just(()) | st.tuples(st.recursive(LEAVES, containers, max_leaves=3)))
            node = Node(name, Op.PLACEHOLDER, draw(st.just(name) | TEXTS), default)
        else:
            node = draw(calls(name, names[:i]))
        nodes.append(draw(tails(node, draw(st.booleans()))))
    result = draw(arguments(names[:-1]))
    nodes.append(draw(tails(Node(names[-1], Op.OUTPUT, "output", (result,)), draw(st.booleans()))))
    bodies = (
        draw(st.dictionaries(PATHS | st.sampled_from(["a/b", "é", "\n"]), graphs(depth - 1), max_size=2))
        if depth
        else {}
    )
    return Graph(
        tuple(nodes),
        bodies,
        draw(st.dictionaries(PATHS, st.integers(0, 5), max_size=2)),
        draw(st.dictionaries(PATHS, TEXTS, max_size=1)),
        draw(st.dictionaries(PATHS, TEXTS, max_size=1)),
    )


@given(graph=graphs())
@quick
def test_any_graph_comes_back_the_same(graph: Graph) -> None:
    assert exactly(through_text(graph)) == exactly(graph)


@given(graph=graphs(depth=1))
@quick
def test_a_text_is_stable_and_python_reads_it(graph: Graph) -> None:
    text = graph_text.write(graph)
    ast.parse(text)
    assert graph_text.write(through_text(graph)) == text


@given(value=st.recursive(LEAVES | st.sampled_from(["x", "y"]).map(Ref), containers, max_leaves=12))
@quick
def test_any_argument_comes_back_the_same(value: Any) -> None:
    back = read(ast.parse(show(value), mode="eval").body, {"x", "y"})
    assert exactly(back) == exactly(value)


@given(value=st.recursive(st.none() | NUMBERS | TEXTS | st.just(...), plain_containers, max_leaves=12))
@quick
def test_plain_arguments_are_what_python_itself_reads(value: Any) -> None:
    constants: dict[str, Any] = {"slice": slice, "float": float, "complex": complex}
    assert exactly(eval(show(value), {"__builtins__": {}, **constants})) == exactly(value)


def test_the_text_reads_like_the_program() -> None:
    f32 = Value("torch.float32", (3, "s77"), ("s77", 1))
    line = Source("model.py", 31, "forward", "y = x @ w", "encoder[0]")
    graph = graph_of(
        Node("x", Op.PLACEHOLDER, "L_x_", value=f32),
        Node("w", Op.GET_ATTR, "w", value=Value("torch.bfloat16", (4, 4), None, "cuda:0")),
        Node("matmul", Op.CALL_FUNCTION, "operator.matmul", (Ref("x"), Ref("w")), source=line),
        Node("relu", Op.CALL_METHOD, "relu", (Ref("matmul"),), source=line),
        Node("to", Op.CALL_METHOD, "to", (Ref("relu"), Name("torch.float16")), {"copy": True}),
        Node("output", Op.OUTPUT, "output", ((Ref("to"), None),)),
    )  # fmt: skip
    assert graph_text.write(graph) == (
        'def forward(self, x: "f32[3, s77]"):\n'
        '    w: "bf16[4, 4] cuda:0" = self.w\n'
        "    # model.py:31 in forward (encoder[0]): y = x @ w\n"
        "    matmul = operator.matmul(x, w)\n"
        "    relu = matmul.relu()\n"
        "    to = relu.to(torch.float16, copy=True)\n"
        "    return (to, None)\n"
    )
    assert exactly(through_text(graph)) == exactly(graph)


def test_bodies_stand_below_under_their_path() -> None:
    inner = relu_graph()
    middle = replace(inner, bodies={"deep": inner})
    graph = replace(inner, bodies={"true_graph_0": middle, "false_graph_0": inner})
    headings = [line for line in graph_text.write(graph).splitlines() if line.startswith("# body")]
    assert headings == ["# body: true_graph_0", "# body: true_graph_0/deep", "# body: false_graph_0"]
    assert through_text(graph) == graph
    assert operators(graph) == 4


@pytest.mark.parametrize("name", ["torch", "self", "class", "ﬁ", "a-b", "unknown", "getattr", "mymodule"])
def test_a_node_whose_name_means_something_else_is_renamed_in_the_text_alone(name: str) -> None:
    graph = graph_of(
        Node(name, Op.PLACEHOLDER, "x"),
        Node("call", Op.CALL_FUNCTION, "mymodule.f", (Ref(name),)),
        Node("output", Op.OUTPUT, "output", (Ref("call"),)),
    )
    assert "def forward(self, node_1):" in graph_text.write(graph)
    assert through_text(graph, ours=True) == graph


def test_a_name_given_to_a_renamed_node_is_nobody_elses() -> None:
    graph = graph_of(
        Node("torch", Op.PLACEHOLDER, "torch"),
        Node("node_1", Op.CALL_FUNCTION, "torch.relu", (Ref("torch"),)),
        Node("node_2", Op.OUTPUT, "output", (Ref("node_1"),)),
    )
    assert "node_1 = torch.relu(node_3)" in graph_text.write(graph)
    assert through_text(graph) == graph


def test_an_overload_that_is_a_keyword_is_written_as_python_needs_it() -> None:
    graph = graph_of(
        Node("x", Op.PLACEHOLDER, "x"),
        Node("r", Op.CALL_FUNCTION, "torch.ops.aten.random_.from", (Ref("x"), 0, 10)),
        Node("output", Op.OUTPUT, "output", (Ref("r"),)),
    )
    assert "r = getattr(torch.ops.aten.random_, 'from')(x, 0, 10)" in graph_text.write(graph)
    assert keyword.iskeyword("from")
    assert through_text(graph) == graph


def test_getattr_of_a_node_is_a_call_and_not_an_attribute() -> None:
    graph = graph_of(
        Node("x", Op.PLACEHOLDER, "x"),
        Node("shape", Op.CALL_FUNCTION, "getattr", (Ref("x"), "shape")),
        Node("weight", Op.GET_ATTR, "0.weight"),
        Node("output", Op.OUTPUT, "output", ((Ref("shape"), Ref("weight")),)),
    )
    assert through_text(graph) == graph


def test_a_default_before_a_parameter_without_one() -> None:
    graph = graph_of(
        Node("a", Op.PLACEHOLDER, "a", (1,)),
        Node("b", Op.PLACEHOLDER, "b"),
        Node("c", Op.PLACEHOLDER, "c", (None,)),
        Node("output", Op.OUTPUT, "output", (Ref("a"),)),
    )
    assert "def forward(self, a, b, c = None):" in graph_text.write(graph)
    assert through_text(graph) == graph


@pytest.mark.parametrize(
    "nodes",
    [
        (),
        (Node("x", Op.PLACEHOLDER, "x"),),
        (Node("x", Op.PLACEHOLDER, "x"), Node("x", Op.OUTPUT, "output", (None,))),
        (Node("w", Op.GET_ATTR, "w"), Node("x", Op.PLACEHOLDER, "x"), Node("o", Op.OUTPUT, "output", (None,))),
    ],
)
def test_what_is_no_graph_is_not_written(nodes: tuple[Node, ...]) -> None:
    with pytest.raises(DamagedCase):
        graph_text.write(Graph(nodes))


@given(graph=graphs(depth=0))
@settings(quick, max_examples=40)
def test_references_are_found_again(graph: Graph) -> None:
    for before, after in zip(graph.nodes, through_text(graph).nodes, strict=True):
        assert list(inputs_of(before)) == list(inputs_of(after))


def test_inputs_come_first_where_freezing_put_folded_weights_before_them() -> None:
    graph = torch.fx.Graph()
    weight = graph.get_attr("weight")
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.mul, (x, weight)),))
    module = torch.fx.GraphModule({"weight": torch.ones(2)}, graph)
    kept = from_torch.graph_of(module, from_torch.Tensors())
    assert exactly(through_text(kept)) == exactly(kept)
    text = graph_text.write(kept)
    assert text.index("forward(self, x)") < text.index("weight = self.weight")
