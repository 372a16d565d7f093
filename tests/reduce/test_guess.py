"""Guesses: what is named is tried first, and halving asks for as little as there is doubt."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from toys import SQUARE, case_of, chain, matches, needs, needs_path, parallel, reduced, targets

from torchsleuth.case import graph_text
from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.case.model import Check
from torchsleuth.judge.generated import Noted
from torchsleuth.reduce import guess
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Hints, Reducer
from torchsleuth.reduce.units import units

NAMES = "sin cos tan exp log relu tanh sigmoid gelu sqrt abs neg floor ceil round sign".split()


def unit(name: str) -> frozenset[str]:
    return frozenset({name})


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.data())
def test_one_guilty_item_is_found_and_was_seen_to_fail(count, data):
    items = [unit(str(i)) for i in range(count)]
    guilty = items[data.draw(st.integers(0, count - 1))]
    weights = data.draw(st.lists(st.sampled_from([0.1, 1.0]), min_size=count, max_size=count))
    asked = []

    def fails(chosen):
        asked.append(list(chosen))
        return guilty in chosen

    assert guess.halved(items, weights, fails) == [guilty]
    if count > 1:
        assert [guilty] in asked


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 40), st.data())
def test_two_guilty_items_are_never_separated(count, data):
    items = [unit(str(i)) for i in range(count)]
    guilty = set(data.draw(st.lists(st.sampled_from(items), min_size=2, max_size=2, unique=True)))
    assert guilty <= set(guess.halved(items, [1.0] * count, lambda chosen: guilty <= set(chosen)))


def test_halving_asks_about_the_logarithm():
    items = [unit(str(i)) for i in range(64)]
    for guilty in items:
        asked = []
        guess.halved(items, [1.0] * 64, lambda chosen, g=guilty, a=asked: a.append(1) or g in chosen)
        assert len(asked) <= math.log2(64) + 1


def test_what_makes_no_kernel_is_asked_about_last():
    """Sixty views and four others: two questions find one of the four among equals, not six."""
    items = [unit(str(i)) for i in range(64)]
    weights = [1.0 if i >= 60 else 0.001 for i in range(64)]
    asked = []
    found = guess.halved(items, weights, lambda chosen: asked.append(1) or unit("62") in chosen)
    assert found == [unit("62")]
    assert len(asked) <= 3


def test_the_operators_of_the_failing_kernel_are_tried_first():
    case = chain(512, {i * 30: name for i, name in enumerate(NAMES)})
    best, oracle = reduced(case, needs("relu"), noted=Noted((), "mul_relu_tanh"))
    assert targets(best) == ["relu"]
    assert oracle.judged_to_smallest <= 3


def test_nodes_that_the_kernel_names_are_tried_before_operators_of_their_kind():
    case = chain(512, {200: "bug"})
    best, oracle = reduced(case, needs("bug"), noted=Noted(("op_199", "op_200"), "sin_bug"))
    assert targets(best) == ["bug"]
    assert oracle.judged_to_smallest <= 3


def test_two_connected_operators_of_a_kernel():
    special = {100: "mean", 101: "sub", 300: "mean", 301: "other"}
    best, oracle = reduced(chain(400, special), needs_path("mean", "sub"), noted=Noted((), "mean_sub"))
    assert targets(best) == ["mean", "sub"]
    assert oracle.judged_to_smallest <= 4


def test_a_wrong_hint_costs_two_judgements():
    case = chain(512, {100: "relu", 300: "tanh"})
    _, right = reduced(case, needs("relu"))
    best, wrong = reduced(case, needs("relu"), noted=Noted((), "tanh"), named="aten.tanh.default")
    assert targets(best) == ["relu"]
    assert wrong.judged_to_smallest <= right.judged_to_smallest + 2


@pytest.mark.parametrize(
    ("called", "error_names"),
    [
        ("conv2d", "aten.convolution.default"),
        ("layer_norm", "aten.native_layer_norm.default"),
        ("linear", "aten.addmm"),
    ],
)
def test_a_function_is_known_by_what_it_becomes(called, error_names):
    best, oracle = reduced(chain(512, {300: called}), needs(called), named=error_names)
    assert targets(best) == [called]
    assert oracle.judged_to_smallest == 1


def test_kernels_name_functions_by_what_they_become():
    graph = chain(9, {3: "truediv", 5: "relu"}).graph
    assert guess.noted(graph, units(graph), Noted((), "div")) == [unit("op_3")]
    assert guess.noted(graph, units(graph), Noted((), "div_relu")) == [unit("op_5")]


def test_views_are_less_suspicious_than_what_computes():
    graph = chain(2, {0: "view", 1: "relu"}).graph
    view, relu = units(graph)
    assert guess.suspicion(graph, view) < guess.suspicion(graph, relu)


def test_a_census_holds_each_kind_once():
    case = chain(100, {50: "relu", 60: "relu", 70: "tanh"})
    kinds = guess.kinds(case.graph, units(case.graph), from_graph(case))
    assert [next(iter(k)) for k in kinds] == ["op_0", "op_50", "op_70"]


def test_what_a_suspect_comes_from_is_found_level_by_level() -> None:
    case = chain(6)
    everything = units(case.graph)
    assert guess.before(case.graph, everything, "op_4", 0) == [frozenset({"op_4"})]
    assert guess.before(case.graph, everything, "op_4", 2) == [frozenset({f"op_{i}"}) for i in (2, 3, 4)]
    assert len(guess.before(case.graph, everything, "op_4", 40)) == 5


def guessing(case, fails, **known):
    """Whether a guess fails, the smallest Case by then, and what was judged."""
    asked = []

    def judge(cases):
        asked.extend(targets(c) for c in cases)
        return matches(fails(c) for c in cases)

    oracle = Oracle(judge, lambda c: graph_text.write(c.graph), case)
    hints = {name: known.pop(name) for name in ("named", "noted", "results") if name in known}
    return Reducer(oracle, from_graph(case), hints=Hints(**hints), **known).guess(), oracle.best, asked


def test_a_guess_at_what_the_kernel_names_does_not_judge_the_whole():
    found, best, asked = guessing(chain(512, {300: "relu"}), needs("relu"), noted=Noted((), "relu"))
    assert found
    assert targets(best) == ["relu"]
    assert asked == [["relu"]]


def test_a_guess_that_is_wrong_costs_a_judgement_and_says_so():
    case = chain(512, {300: "relu", 400: "tanh"})
    found, best, asked = guessing(case, needs("relu", "tanh"), noted=Noted((), "relu"))
    assert not found
    assert best is case
    assert asked == [["relu"]]


def test_without_a_hint_nothing_is_judged():
    assert guessing(chain(512), needs("sin")) == (False, chain(512), [])


def test_a_few_operators_are_not_guessed_at():
    case = chain(5, {3: "relu"})
    assert guessing(case, needs("relu"), noted=Noted((), "relu")) == (False, case, [])


def test_of_wrong_numbers_a_census_says_whose_result_is_wrong():
    """One of each kind, all at once; then the one whose result is wrong, alone."""
    case = chain(64, {20: "relu", 30: "tanh", 40: "cos"})

    def wrong(one):
        return [n.name for n in one.graph.nodes if n.target == "torch.tanh"]

    found, best, asked = guessing(case, needs("tanh"), results=("op_63",), wrong_results=wrong)
    assert found
    assert targets(best) == ["tanh"]
    assert [sorted(one) for one in asked] == [["cos", "relu", "sin", "tanh"], ["tanh"]]


def test_a_census_is_of_what_the_wrong_result_depends_on():
    case = parallel(2, 30, {(0, 3): "relu", (1, 3): "tanh"})

    def wrong(one):
        return [n.name for n in one.graph.nodes if n.target in ("torch.tanh", "torch.relu")]

    found, best, asked = guessing(case, lambda c: True, results=("c0_29",), wrong_results=wrong)
    assert found
    assert targets(best) == ["relu"]
    assert [sorted(one) for one in asked] == [["relu", "sin"], ["relu"]]


def test_of_wrong_gradients_a_census_is_halved():
    """No single result says whose gradient is wrong."""
    special = {20: "relu", 30: "tanh", 40: "cos", 45: "exp", 50: "erf", 55: "abs", 60: "neg"}
    case = replace(chain(64, special), check=Check(), phase=Phase.RUN_BACKWARD)
    found, best, asked = guessing(case, needs("tanh"))
    assert found
    assert targets(best) == ["tanh"]
    assert len(asked) <= 5
    assert max(map(len, asked)) == 8, "the whole was not judged"


def test_two_operators_that_make_a_gradient_wrong_are_guessed_only_where_they_do_alone():
    case = replace(chain(64, {20: "relu", 30: "tanh"}), check=Check(), phase=Phase.RUN_BACKWARD)
    found, best, asked = guessing(case, needs_path("relu", "tanh"))
    assert not found
    assert best is case
    assert len(asked) == 1


def test_a_census_that_passes_leaves_it_to_the_suspect():
    case = chain(64, {20: "relu", 40: "exp", 41: "tanh"})
    found, best, asked = guessing(case, needs_path("exp", "tanh"), results=("op_63",), suspects=lambda one: ["op_41"])
    assert found
    assert targets(best) == ["exp", "tanh"]
    assert len(asked) == 3, "the census, op_41 alone, and with what is before it"


def test_with_a_suspect_goes_what_writes_to_memory_that_it_reads():
    """x goes on as dropout's result, which is x itself: adding to that changes what is read of x."""
    nodes = list(chain(64).graph.nodes)
    named = [
        Node("same", Op.CALL_FUNCTION, "torch.dropout", (Ref("x"), 0.1, False), value=SQUARE),
        Node("write", Op.CALL_FUNCTION, "operator.iadd", (Ref("same"), 1), value=SQUARE),
        Node("read", Op.CALL_FUNCTION, "torch.neg", (Ref("x"),), value=SQUARE),
        Node("last", Op.CALL_FUNCTION, "torch.add", (Ref("op_63"), Ref("read")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("last"),),)),
    ]
    case = case_of([*nodes[:-1], *named], 1)
    needed = {"torch.dropout", "operator.iadd", "torch.neg"}

    def fails(one):
        return needed <= {n.target for n in one.graph.nodes}

    found, best, asked = guessing(case, fails, results=("last",), suspects=lambda one: ["read"])
    assert found
    assert {n.target for n in best.graph.nodes if n.is_call} == needed
    assert [len(one) for one in asked][-2:] == [1, 3]
