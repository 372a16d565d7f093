"""Bodies of higher-order operators: inlined where that still fails, reduced inside where it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from toys import SQUARE, case_of, check_legal, reduced, targets

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, Value, inputs_of, operators
from torchsleuth.case.model import Case
from torchsleuth.reduce.bodies import inlined, keep_inside, paths, units_in

HIGHER = "torch.ops.higher_order"


def body(*targets: str, inputs: int = 1, prefix: str = "b") -> Graph:
    """A chain of operators over its first input."""
    nodes = [Node(f"p{i}", Op.PLACEHOLDER, f"p{i}", value=SQUARE) for i in range(inputs)]
    last = "p0"
    for i, target in enumerate(targets):
        nodes.append(Node(f"{prefix}{i}", Op.CALL_FUNCTION, f"torch.{target}", (Ref(last),), value=SQUARE))
        last = f"{prefix}{i}"
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(last),),)))
    return Graph(tuple(nodes))


def case_with(operator: str, bodies: dict[str, Graph], arguments: Callable[[list[Ref]], tuple[Arg, ...]]) -> Case:
    """x -> before -> the higher-order operator -> after."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("before", Op.CALL_FUNCTION, "torch.before", (Ref("x"),), value=SQUARE),
        *(Node(f"get_{name}", Op.GET_ATTR, name) for name in bodies),
        Node("hop", Op.CALL_FUNCTION, f"{HIGHER}.{operator}", arguments([Ref(f"get_{name}") for name in bodies])),
        Node("element", Op.CALL_FUNCTION, "operator.getitem", (Ref("hop"), 0), value=SQUARE),
        Node("after", Op.CALL_FUNCTION, "torch.after", (Ref("element"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("after"),),)),
    ]
    case = case_of(nodes, 1)
    return Case(case.level, Graph(tuple(nodes), bodies), case.inputs, storages=case.storages)


def conditional() -> Case:
    return case_with(
        "cond",
        {"yes": body("sin", "bug", "cos"), "no": body("exp", "log")},
        lambda refs: (True, *refs, (Ref("before"),)),
    )


def everywhere(case: Case) -> list[str]:
    return [n.target.removeprefix("torch.") for g in case.graph.all_graphs() for n in g.nodes if n.is_call]


def test_each_branch_takes_the_place_of_the_operator():
    first, second = inlined(conditional())
    assert targets(first) == ["before", "sin", "bug", "cos", "after"]
    assert targets(second) == ["before", "exp", "log", "after"]
    for case in (first, second):
        check_legal(case)
        assert not case.graph.bodies


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("tag_activation_checkpoint", lambda refs: (refs[0], Ref("before"))),
        ("invoke_subgraph", lambda refs: (refs[0], "name", Ref("before"))),
        ("wrap_with_set_grad_enabled", lambda refs: (False, refs[0], Ref("before"))),
    ],
)
def test_a_body_that_is_called_once_reads_the_operands(operator, arguments):
    (flat,) = inlined(case_with(operator, {"body": body("sin", "bug")}, arguments))
    check_legal(flat)
    assert targets(flat) == ["before", "sin", "bug", "after"]
    assert flat.graph.nodes[2].args == (Ref("before"),)


def forward() -> Graph:
    """Of an autograd.Function: its outputs, and what it saves for the backward."""
    output = Node("output", Op.OUTPUT, "output", (((Ref("b0"),), (Ref("p0"),)),))
    return Graph((*body("sin").nodes[:-1], output))


def test_an_autograd_function_gives_what_its_forward_gives():
    case = case_with("autograd_function_apply", {"f": forward(), "b": body("cos")}, lambda refs: (*refs, Ref("before")))
    (flat,) = inlined(case)
    check_legal(flat)
    assert targets(flat) == ["before", "sin", "after"]


def test_the_body_of_a_loop_stands_alone_with_inputs_of_its_own():
    case = case_with(
        "scan", {"step": body("sin", "bug", inputs=2)}, lambda refs: (refs[0], [Ref("before")], [Ref("x")], [])
    )
    (flat,) = inlined(case)
    check_legal(flat)
    assert targets(flat) == ["before", "sin", "bug", "after"]
    assert len(flat.inputs) == 3  # x, the body's used one, what the scan gave
    assert len({t.storage for t in flat.inputs}) == 3


def test_one_body_called_twice_is_there_twice():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("g1", Op.GET_ATTR, "shared"),
        Node("h1", Op.CALL_FUNCTION, f"{HIGHER}.invoke_subgraph", (Ref("g1"), "s", Ref("x"))),
        Node("e1", Op.CALL_FUNCTION, "operator.getitem", (Ref("h1"), 0), value=SQUARE),
        Node("h2", Op.CALL_FUNCTION, f"{HIGHER}.invoke_subgraph", (Ref("g1"), "s", Ref("e1"))),
        Node("e2", Op.CALL_FUNCTION, "operator.getitem", (Ref("h2"), 0), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("e2"),),)),
    ]
    case = case_of(nodes, 1)
    case = Case(case.level, Graph(tuple(nodes), {"shared": body("sin")}), case.inputs, storages=case.storages)
    (flat,) = inlined(case)
    check_legal(flat)
    assert targets(flat) == ["sin", "sin"]
    assert len({n.name for n in flat.graph.nodes}) == len(flat.graph.nodes)


def test_bodies_within_bodies_come_up_one_level_at_a_time():
    outer = Graph(
        (
            Node("p0", Op.PLACEHOLDER, "p0", value=SQUARE),
            Node("get", Op.GET_ATTR, "inner"),
            Node("h", Op.CALL_FUNCTION, f"{HIGHER}.wrap", (Ref("get"), Ref("p0"))),
            Node("e", Op.CALL_FUNCTION, "operator.getitem", (Ref("h"), 0), value=SQUARE),
            Node("output", Op.OUTPUT, "output", ((Ref("e"),),)),
        ),
        {"inner": body("bug")},
    )
    case = case_with("wrap", {"outer": outer}, lambda refs: (refs[0], Ref("before")))
    (once,) = inlined(case)
    assert list(once.graph.bodies) == ["outer.inner"]
    (twice,) = inlined(once)
    check_legal(twice)
    assert targets(twice) == ["before", "bug", "after"]


def test_an_operator_that_fails_without_its_body_is_reduced_to_what_the_body_holds():
    best, _ = reduced(conditional(), lambda c: "bug" in everywhere(c))
    assert everywhere(best) == ["bug"]


def test_inside_a_body_only_what_is_needed_stays():
    def fails(case: Case) -> bool:
        found = everywhere(case)
        return "bug" in found and "ops.higher_order.cond" in found

    best, _ = reduced(conditional(), fails)
    assert sorted(everywhere(best)) == ["bug", "operator.getitem", "ops.higher_order.cond"]
    assert operators(best.graph) == 2


def test_what_nothing_can_stand_for_keeps_its_operator():
    odd = Node("odd", Op.CALL_FUNCTION, "torch.odd", (Ref("p0"),))
    use = Node("use", Op.CALL_FUNCTION, "torch.use", (Ref("odd"),), value=SQUARE)
    inside = Graph((body().nodes[0], odd, use, Node("output", Op.OUTPUT, "output", ((Ref("use"),),))))
    case = case_with("wrap", {"body": inside}, lambda refs: (refs[0], Ref("before")))
    assert list(paths(case.graph)) == [("body",)]
    assert units_in(case.graph, ("body",)) == [frozenset({"odd"}), frozenset({"use"})]
    assert keep_inside(case, ("body",), {"use"}) is None
    smaller = keep_inside(case, ("body",), {"odd"})
    assert smaller is not None
    assert smaller.graph.bodies["body"].output.args == ((Ref("p0"),),)


def test_a_value_of_another_look_becomes_one_more_operand():
    """Both branches take it, because both take the same operands."""
    row = Value("torch.int64", (3,), (1,))
    index = Node("index", Op.CALL_FUNCTION, "torch.index", (), value=row)
    use = Node("use", Op.CALL_FUNCTION, "torch.use", (Ref("p0"), Ref("index")), value=SQUARE)
    inside = Graph((body().nodes[0], index, use, Node("output", Op.OUTPUT, "output", ((Ref("use"),),))))
    case = case_with("cond", {"yes": inside, "no": body("exp")}, lambda refs: (True, *refs, (Ref("before"),)))
    smaller = keep_inside(case, ("yes",), {"use"})
    assert smaller is not None
    check_legal(smaller)
    hop = next(n for n in smaller.graph.nodes if n.name == "hop")
    assert hop.args[3] == (Ref("before"), Ref("index_1"))
    for inner in smaller.graph.bodies.values():
        assert [p.name for p in inner.placeholders] == ["p0", "index_1"]
        check_bound(inner)
    assert smaller.inputs[-1].shape == (3,)
    assert smaller.inputs[-1].storage == len(smaller.storages) - 1


def test_operators_that_take_no_more_operands_keep_their_body():
    row = Value("torch.int64", (3,), (1,))
    index = Node("index", Op.CALL_FUNCTION, "torch.index", (), value=row)
    use = Node("use", Op.CALL_FUNCTION, "torch.use", (Ref("p0"), Ref("index")), value=SQUARE)
    inside = Graph((body().nodes[0], index, use, Node("output", Op.OUTPUT, "output", ((Ref("use"),),))))
    case = case_with("flex_attention", {"score_mod": inside}, lambda refs: (Ref("before"), refs[0]))
    assert keep_inside(case, ("score_mod",), {"use"}) is None


def check_bound(graph: Graph) -> None:
    known: set[str] = set()
    for node in graph.nodes:
        assert set(inputs_of(node)) <= known
        known.add(node.name)
