"""Every subset of the operators makes a legal graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from toys import SQUARE, case_of, chain, check_legal, needs_path, parallel, reduced, targets

from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.reduce.edit import CannotDrop, keep_only
from torchsleuth.reduce.facts import Facts, from_graph, size_of
from torchsleuth.reduce.units import picks, units


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 39), min_size=1), st.booleans())
def test_any_subset_of_parallel_chains_is_legal(chosen, bypass):
    case = parallel(4, 9, {})
    everything = units(case.graph)
    keep = frozenset().union(*(everything[i % len(everything)] for i in chosen))
    smaller = keep_only(case, keep, from_graph(case), bypass=bypass)
    check_legal(smaller)
    assert {n.name for n in smaller.graph.nodes if n.is_call} == set(keep)


def test_bypass_joins_what_is_left_and_cut_separates_it():
    case = chain(5, {1: "relu", 3: "tanh"})
    joined = keep_only(case, {"op_1", "op_3"}, from_graph(case), bypass=True)
    assert joined.graph.nodes[-2].args == (Ref("op_1"),)
    cut = keep_only(case, {"op_1", "op_3"}, from_graph(case), bypass=False)
    assert len(cut.inputs) == 2
    assert [t.storage for t in cut.inputs] == sorted({t.storage for t in cut.inputs})


def test_bypass_reaches_past_operators_that_change_the_shape_and_change_it_back():
    row = replace(SQUARE, shape=(16,), stride=(1,))
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("sin", Op.CALL_FUNCTION, "torch.sin", (Ref("x"),), value=SQUARE),
        Node("flat", Op.CALL_METHOD, "flatten", (Ref("sin"),), value=row),
        Node("back", Op.CALL_METHOD, "view", (Ref("flat"), 4, 4), value=SQUARE),
        Node("cos", Op.CALL_FUNCTION, "torch.cos", (Ref("back"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("cos"),),)),
    ]
    case = case_of(nodes, 1)
    smaller = keep_only(case, {"sin", "cos"}, from_graph(case), bypass=True)
    check_legal(smaller)
    assert smaller.graph.nodes[-2].args == (Ref("sin"),)
    best, _ = reduced(case, needs_path("sin", "cos"))
    assert targets(best) == ["sin", "cos"]


def tuple_case():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("split", Op.CALL_METHOD, "split", (Ref("x"), 2)),
        Node("first", Op.CALL_FUNCTION, "operator.getitem", (Ref("split"), 0), value=SQUARE),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("first"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    return case_of(nodes, 1)


def test_an_element_of_a_tuple_goes_with_the_tuple():
    case = tuple_case()
    assert picks(case.graph) == {"first"}
    assert units(case.graph) == [frozenset({"split"}), frozenset({"relu"})]
    only = keep_only(case, {"relu"}, from_graph(case), bypass=False)
    assert targets(only) == ["relu"]
    assert [n.name for n in only.graph.placeholders] == ["first"]
    past = keep_only(case, {"relu"}, from_graph(case), bypass=True)
    assert [n.name for n in past.graph.placeholders] == ["x"]
    whole = keep_only(case, {"split"}, from_graph(case))
    assert [n.name for n in whole.graph.nodes] == ["x", "split", "first", "output"]


def test_a_value_that_nobody_can_make_up_keeps_its_operator():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("odd", Op.CALL_FUNCTION, "torch.odd", (Ref("x"),)),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("odd"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    case = case_of(nodes, 1)
    with pytest.raises(CannotDrop):
        keep_only(case, {"relu"}, from_graph(case))
    known = Facts(from_graph(case).tensors, {"odd": 7})
    assert keep_only(case, {"relu"}, known).graph.nodes[-2].args == (7,)


def test_a_float_that_is_kept_is_read_past_what_was_done_to_it():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("clock", Op.PLACEHOLDER, "clock", value=replace(SQUARE, shape=())),
        Node("item", Op.CALL_METHOD, "item", (Ref("clock"),)),
        Node("mod", Op.CALL_FUNCTION, "operator.mod", (Ref("item"), 1.0)),
        Node("scaled", Op.CALL_FUNCTION, "operator.mul", (0.5, Ref("mod"))),
        Node("more", Op.CALL_FUNCTION, "operator.add", (1.0, Ref("scaled"))),
        Node("mul", Op.CALL_FUNCTION, "operator.mul", (Ref("x"), Ref("more")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("mul"),),)),
    ]
    case = case_of(nodes, 2)
    known = Facts(from_graph(case).tensors, {"item": 2.5, "mod": 0.5, "scaled": 0.25, "more": 1.25})
    kept = keep_only(case, {"item", "mod", "mul"}, known)
    assert kept.graph.nodes[-2].args == (Ref("x"), Ref("mod"))
    assert keep_only(case, {"mul"}, known).graph.nodes[-2].args == (Ref("x"), 1.25), "its own where none is kept"
    sizes = Facts(known.tensors, {"item": 2, "mod": 3, "scaled": 4, "more": 5})
    assert keep_only(case, {"item", "mod", "mul"}, sizes).graph.nodes[-2].args == (Ref("x"), 5)


def test_regions_open_and_close_together():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("enter", Op.CALL_FUNCTION, "torch.amp.autocast_mode._enter_autocast", ("cpu", None, True, None)),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=SQUARE),
        Node("leave", Op.CALL_FUNCTION, "torch.amp.autocast_mode._exit_autocast", (Ref("enter"),)),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    assert units(case_of(nodes, 1).graph) == [frozenset({"enter", "leave"}), frozenset({"relu"})]


@pytest.mark.parametrize(
    ("text", "value"),
    [("s0", 6), ("2*s0 + 1", 13), ("(s0//4)", 1), ("Max(2, s0)", 6), ("Mod(s0, 4)", 2), ("-s0", -6), ("s0**2", 36)],
)
def test_symbolic_sizes_are_worked_out(text, value):
    assert size_of(text, {"s0": 6}) == value


def test_nothing_but_arithmetic_is_worked_out():
    with pytest.raises(ValueError, match="x"):
        size_of("open('x')", {})


def test_a_bridge_leads_on_from_what_is_kept():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("made", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=SQUARE),
        Node(
            "between", Op.CALL_FUNCTION, "torch.sum", (Ref("made"), 0), value=replace(SQUARE, shape=(4,), stride=(1,))
        ),
        Node("read", Op.CALL_FUNCTION, "torch.tanh", (Ref("between"),), value=replace(SQUARE, shape=(4,), stride=(1,))),
        Node("output", Op.OUTPUT, "output", ((Ref("read"),),)),
    ]
    case = case_of(nodes, 1)
    bridged = keep_only(case, {"made", "read"}, from_graph(case), bridge=True)
    calls = [(n.name, n.target, n.args) for n in bridged.graph.nodes if n.is_call]
    assert calls == [
        ("made", "torch.relu", (Ref("x"),)),
        ("between_one", "operator.getitem", (Ref("made"), (0, 0))),
        ("between", "expand", (Ref("between_one"), (4,))),
        ("read", "torch.tanh", (Ref("between"),)),
    ]
    cut = keep_only(case, {"made", "read"}, from_graph(case))
    assert [n.name for n in cut.graph.placeholders] == ["x", "between"]


def test_of_a_write_that_nobody_reads_the_whole_memory_is_the_result():
    row = replace(SQUARE, shape=(4,), stride=(1,))
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("whole", Op.CALL_METHOD, "clone", (Ref("x"),), value=SQUARE),
        Node("part", Op.CALL_FUNCTION, "operator.getitem", (Ref("whole"), 0), value=row),
        Node("written", Op.CALL_METHOD, "add_", (Ref("part"), 1), value=row),
        Node("read", Op.CALL_FUNCTION, "torch.sin", (Ref("whole"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("read"),),)),
    ]
    case = case_of(nodes, 1)
    without_its_reader = keep_only(case, {"whole", "part", "written"}, from_graph(case))
    assert without_its_reader.graph.output.args == ((Ref("whole"),),), "the part says less, and is one alias more"
    to_an_input = keep_only(case, {"part", "written"}, from_graph(case), bypass=True)
    assert to_an_input.graph.output.args == ((Ref("written"),),), "an input is seen by whoever gave it"
