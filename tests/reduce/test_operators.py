"""Exactly the operators that are needed, within a budget of judgements."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from toys import SQUARE, case_of, chain, needs, needs_path, parallel, reduced, targets

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Node, Op, Ref


def test_one_operator_of_512():
    best, oracle = reduced(chain(512, {300: "relu"}), needs("relu"))
    assert targets(best) == ["relu"]
    assert oracle.judged_to_smallest <= 10


def test_two_operators_of_512_at_25_and_75_percent():
    best, oracle = reduced(chain(512, {128: "relu", 384: "tanh"}), needs("relu", "tanh"))
    assert sorted(targets(best)) == ["relu", "tanh"]
    assert oracle.judged <= 60


def test_two_that_must_stay_connected():
    best, oracle = reduced(chain(512, {128: "relu", 384: "tanh"}), needs_path("relu", "tanh"))
    assert targets(best) == ["relu", "tanh"]
    assert oracle.judged <= 60


def test_two_of_the_commonest_kind_that_must_stay_connected():
    """No census helps: the needed operators look like all others."""
    special = {128: "relu", 384: "relu"}

    def fails(case):
        return targets(case).count("relu") >= 2

    best, oracle = reduced(chain(512, special), fails)
    assert targets(best) == ["relu", "relu"]
    assert oracle.judged <= 60


def test_four_spread_in_512():
    best, oracle = reduced(
        chain(512, {64: "relu", 192: "tanh", 320: "exp", 448: "log"}),
        lambda c: needs_path("relu", "tanh")(c) and needs_path("tanh", "exp")(c) and needs_path("exp", "log")(c),
    )
    assert targets(best) == ["relu", "tanh", "exp", "log"]
    assert oracle.judged <= 120


def test_eight_parallel_chains():
    best, oracle = reduced(parallel(8, 32, {(2, 10): "relu", (5, 20): "tanh"}), needs("relu", "tanh"))
    assert sorted(targets(best)) == ["relu", "tanh"]
    assert oracle.judged <= 60


def test_ten_thousand_operators():
    best, oracle = reduced(chain(10_000, {2_500: "relu", 7_500: "tanh"}), needs_path("relu", "tanh"))
    assert targets(best) == ["relu", "tanh"]
    assert oracle.judged <= 200


def test_memory_grows_with_the_graph_and_not_faster():
    peaks = {}
    for length in (200, 800):
        case = chain(length, {length // 4: "relu", length * 3 // 4: "tanh"})
        tracemalloc.start()
        reduced(case, needs_path("relu", "tanh"))
        peaks[length] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[800] < 6 * peaks[200]


def test_the_operator_that_the_error_names_is_tried_first():
    best, oracle = reduced(chain(512, {300: "cummin"}), needs("cummin"), named="aten.cummin.default")
    assert targets(best) == ["cummin"]
    assert oracle.judged_to_smallest == 1


@pytest.mark.parametrize("width", [1, 2, 4])
def test_speculation_finds_the_same(width):
    best, _ = reduced(chain(200, {50: "relu", 150: "tanh"}), needs_path("relu", "tanh"), width=width)
    assert targets(best) == ["relu", "tanh"]


def test_nothing_is_judged_twice():
    seen = []
    fails = needs_path("relu", "tanh")

    def judge(case):
        seen.append((tuple(targets(case)), case.inputs, case.surroundings, repr(case.graph.nodes)))
        return fails(case)

    reduced(chain(100, {25: "relu", 75: "tanh"}), judge)
    assert len(seen) == len(set(map(repr, seen)))


def test_nothing_smaller_is_claimed_when_all_is_needed():
    best, _ = reduced(chain(6, dict(enumerate("abcdef"))), lambda c: len(targets(c)) == 6)
    assert len(targets(best)) == 6


def growing(length, special):
    """A chain in which no two values have the same size: none can stand for another."""
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=SQUARE)]
    for i in range(length):
        look = replace(SQUARE, shape=(i + 5,), stride=(1,))
        target = f"torch.{special.get(i, 'sin')}"
        nodes.append(Node(f"op_{i}", Op.CALL_FUNCTION, target, (Ref(nodes[-1].name),), value=look))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    return case_of(nodes, 1)


def test_a_bridge_where_what_is_between_changes_the_size():
    def fails(case):
        looks = {n.name: n.value for n in case.graph.nodes}
        read = next((n.args[0].name for n in case.graph.nodes if n.target == "torch.tanh"), None)
        legal = all(looks[n.args[0].name].shape == () for n in case.graph.nodes if n.target == "expand")
        return legal and needs_path("relu", "tanh")(case) and looks[read].shape == (19,)

    best, oracle = reduced(growing(20, {2: "relu", 15: "tanh"}), fails)
    assert targets(best) == ["relu", "operator.getitem", "expand", "tanh"]
    relu, one, wide, tanh = (n for n in best.graph.nodes if n.is_call)
    assert [n.args[0] for n in (one, wide, tanh)] == [Ref(n.name) for n in (relu, one, wide)]
    assert oracle.judged <= 80


def test_a_bridge_that_is_not_needed_goes_again():
    best, _ = reduced(growing(20, {2: "relu", 15: "tanh"}), needs_path("relu", "tanh"))
    assert targets(best) == ["relu", "tanh"]


def test_no_bridge_where_each_that_fails_is_waited_for():
    hang = Failure(Kind.HANG, Phase.COMPILE_FORWARD, Fingerprint("deadline"))
    case = replace(growing(20, {2: "relu", 15: "tanh"}), failure=hang)
    best, _ = reduced(case, needs_path("relu", "tanh"))
    assert "expand" not in targets(best)
    assert len(targets(best)) == 14


@pytest.mark.parametrize("size", [4, "unknown"])
def test_what_flows_on_through_a_second_operand_still_does(size):
    """Without the product, relu reads what flip gives: x would cut them apart."""
    value = replace(SQUARE, shape=(size, size), stride=None)
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("y", Op.PLACEHOLDER, "y", value=SQUARE),
        Node("flip", Op.CALL_FUNCTION, "torch.flip", (Ref("y"), (0,)), value=value),
        Node("mul", Op.CALL_FUNCTION, "torch.mul", (Ref("x"), Ref("flip")), value=value),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("mul"),), value=value),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    best, _ = reduced(case_of(nodes, 2), needs_path("flip", "relu"))
    assert targets(best) == ["flip", "relu"]
