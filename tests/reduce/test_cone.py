"""What a wrong result can depend on, later writes to what it was read from included."""

from __future__ import annotations

from toys import SQUARE, case_of, matches, targets

from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.reduce import cone
from torchsleuth.reduce.edit import keep_only
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Hints, Reducer
from torchsleuth.reduce.units import units


def _call(name: str, target: str, *args: object) -> Node:
    return Node(name, Op.CALL_FUNCTION, target, args, value=SQUARE)  # type: ignore[arg-type]


def model():
    """A long chain beside a value that is read through a view of an input, which is written to afterwards."""
    nodes = [Node(n, Op.PLACEHOLDER, n, value=SQUARE) for n in ("x", "codes")]
    last = "x"
    for i in range(20):
        nodes.append(_call(f"op_{i}", "torch.sin", Ref(last)))
        last = f"op_{i}"
    nodes += [
        Node("seen", Op.CALL_METHOD, "view", (Ref("codes"), 16), value=SQUARE),
        _call("twice", "torch.mul", Ref("seen"), 2),
        Node("less", Op.CALL_METHOD, "sub_", (Ref("twice"), 4), value=SQUARE),
        Node("write", Op.CALL_FUNCTION, "operator.setitem", (Ref("codes"), 0, 2)),
        _call("result", "torch.neg", Ref("twice")),
        Node("output", Op.OUTPUT, "output", ((Ref(last), Ref("result")),)),
    ]
    return case_of(nodes, 2)


CONE = ["seen", "twice", "less", "write", "result"]


def test_the_cone_of_a_result_holds_writes_before_and_after():
    graph = model().graph
    found = cone.units_of(graph, units(graph), cone.nodes_at(graph, ["out[1]"]))
    assert [name for unit in found for name in unit] == CONE


def test_the_cone_of_a_pure_result_holds_no_writes():
    graph = model().graph
    found = cone.units_of(graph, units(graph), cone.nodes_at(graph, ["out[0]"]))
    assert len(found) == 20


def test_an_input_that_is_wrong_stands_for_all_that_are_written():
    graph = model().graph
    assert cone.nodes_at(graph, ["codes"]) == ("codes",)
    found = cone.units_of(graph, units(graph), ("codes",))
    assert frozenset({"write"}) in found


def test_a_place_that_is_not_known_gives_everything():
    graph = model().graph
    assert cone.nodes_at(graph, ["out[7]"]) == ()
    assert cone.units_of(graph, units(graph), ()) == units(graph)


def test_what_nobody_read_does_not_become_a_result():
    case = model()
    kept = keep_only(case, CONE, from_graph(case), bypass=False)
    assert kept.graph.output.args == ((Ref("result"),),)


def test_a_failure_that_any_alias_more_would_hide_is_reduced_by_its_cone():
    case = model()

    def fails(cases):
        return matches(
            {"view", "sub_", "operator.setitem", "mul", "neg"} <= set(targets(c)) and len(c.graph.output.args[0]) <= 2
            for c in cases
        )

    oracle = Oracle(fails, lambda c: repr(c.graph), case)
    Reducer(oracle, from_graph(case), hints=Hints(results=("result",))).reduce()
    assert [n.name for n in oracle.best.graph.nodes if n.is_call] == CONE
    assert oracle.judged_to_smallest == 1


def test_a_write_to_what_an_operator_hands_back_is_one_to_its_argument():
    """Dropout gives its argument itself where it drops nothing."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        _call("same", "torch.nn.functional.dropout", Ref("x"), 0.1, False),
        _call("write", "operator.iadd", Ref("same"), 1),
        _call("result", "torch.neg", Ref("x")),
        Node("output", Op.OUTPUT, "output", ((Ref("result"),),)),
    ]
    graph = case_of(nodes, 1).graph
    found = cone.units_of(graph, units(graph), ("result",))
    assert [name for unit in found for name in unit] == ["same", "write", "result"]
