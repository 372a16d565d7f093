"""Lines for graphs that have none."""

from __future__ import annotations

from dataclasses import replace

from torchsleuth.case.caller import any_line, caller, with_lines
from torchsleuth.case.ir import Graph, Node, Op, Ref, Source

CALLED = Source("train.py", 7, "step", "model(x)")
X = Node("x", Op.PLACEHOLDER, "x")
RELU = Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), source=Source("", 0, module="model.act"))
END = Node("output", Op.OUTPUT, "output", ((Ref("relu"),),))
BARE = Graph((X, RELU, END))


def never() -> Source:
    raise AssertionError("asked, although there is a line")


def test_calls_without_a_line_get_the_callers_and_keep_their_module() -> None:
    found = with_lines(replace(BARE, bodies={"true": BARE}), lambda: CALLED)
    for graph in found.all_graphs():
        assert [n.source for n in graph.nodes] == [None, replace(CALLED, module="model.act"), None]


def test_a_graph_with_a_line_anywhere_stays_as_it_is() -> None:
    known = replace(BARE, nodes=(X, replace(RELU, source=CALLED), END))
    assert any_line(known) == CALLED
    assert with_lines(known, never) is known
    whole = replace(known, bodies={"true": known})
    assert with_lines(whole, never) is whole


def test_lines_of_torch_are_none_and_a_body_with_lines_does_not_help_its_caller() -> None:
    inside = Source("/lib/python3.11/site-packages/torch/utils/_device.py", 116, "f", "return func(*args)", "model")
    known = replace(BARE, nodes=(X, replace(RELU, source=Source("mask.py", 3)), END))
    graph = replace(BARE, nodes=(X, replace(RELU, source=inside), END), bodies={"mask": known})
    found = with_lines(graph, lambda: CALLED)
    assert found.nodes[1].source == replace(CALLED, module="model")
    assert found.bodies["mask"] is known


def test_where_nobody_called_nothing_changes() -> None:
    assert with_lines(BARE, lambda: None) is BARE


def test_the_caller_is_whoever_is_not_torch() -> None:
    found = caller()
    assert found is not None
    assert (found.function, found.code) == ("test_the_caller_is_whoever_is_not_torch", "found = caller()")
