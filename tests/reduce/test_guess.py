"""Guesses: what is named is tried first, and halving asks for as little as there is doubt."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st
from toys import chain, needs, needs_path, reduced, targets

from torchsleuth.judge.generated import Noted
from torchsleuth.reduce import guess
from torchsleuth.reduce.facts import from_graph
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
