"""The passes that rewrite calls: constants, rank, device, in-place operators, public names, phases, operators."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import SQUARE, case_of, chain, check_legal, needs, reduced, targets

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Arg, Made, Name, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Scalar, Storage, Surroundings
from torchsleuth.reduce.passes import (
    constants,
    device,
    dynamic,
    forward_only,
    in_place,
    names,
    operators,
    rank,
    shared_memory,
)


def one(target: str, *args: Arg, op: Op = Op.CALL_FUNCTION, **kwargs: Arg) -> Case:
    """A graph of one call."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("call", op, target, args, kwargs, value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("call"),),)),
    ]
    return case_of(nodes, 1)


def call(case: Case) -> Node:
    return case.graph.nodes[-2]


def test_floats_become_one_all_at_once_then_numbers_one_by_one():
    case = one("torch.addcmul", Ref("x"), 0.25, 7, value=3.5)
    found = [(call(c).args[1:], dict(call(c).kwargs)) for c in constants.propose(case)]
    assert found[0] == ((1.0, 7), {"value": 1.0})
    assert ((0.25, 1), {"value": 3.5}) in found
    assert ((0.25, 0), {"value": 3.5}) in found
    assert ((0.25, 7), {"value": 0.0}) in found


def test_a_constant_that_matters_stays():
    best, _ = reduced(one("torch.add", Ref("x"), 0.25, alpha=3), lambda c: 0.25 in call(c).args)
    assert call(best).args == (Ref("x"), 0.25)


def test_ones_zeros_booleans_and_references_are_simple_already():
    assert list(constants.propose(one("torch.add", Ref("x"), 1, 0.0, True, -1, "mean", None))) == []


def test_a_table_of_data_is_not_asked_about_number_by_number():
    table = [[float(i * 10 + j) + 0.5 for j in range(10)] for i in range(10)]
    assert len(list(constants.propose(one("torch.tensor", table)))) <= 50


def test_the_first_dimension_goes_with_its_symbol():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=Value("torch.float32", ("s0", "s1", 4))),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),)),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    case = case_of(nodes, 1)
    case = replace(case, inputs=(replace(case.inputs[0], shape=(2, 3, 4), stride=(12, 4, 1), dynamic=(0, 1)),))
    smaller = next(rank.propose(case))
    assert (smaller.inputs[0].shape, smaller.inputs[0].stride, smaller.inputs[0].dynamic) == ((3, 4), (4, 1), (0,))
    assert smaller.graph.placeholders[0].value.shape == ("s1", 4)


def test_rank_goes_down_as_far_as_it_fails_and_not_below_one():
    case = one("torch.relu", Ref("x"))
    case = replace(case, inputs=(replace(case.inputs[0], shape=(2, 2, 2, 2), stride=(8, 4, 2, 1)),))
    best, _ = reduced(case, lambda c: len(c.inputs[0].shape) >= 2)
    assert len(best.inputs[0].shape) == 2
    best, _ = reduced(case, lambda c: True)
    assert len(best.inputs[0].shape) == 1


def test_everything_moves_to_the_cpu():
    case = one("torch.zeros", [4, 4], device=Made("torch.device", ("cuda", 0)))
    case = replace(case, inputs=(replace(case.inputs[0], device="cuda:0"),))
    nodes = [replace(n, value=replace(n.value, device="cuda:0")) if n.value else n for n in case.graph.nodes]
    case = replace(case, graph=replace(case.graph, nodes=tuple(nodes)))
    moved = next(device.propose(case))
    assert moved.devices == {"cpu"}
    assert call(moved).kwargs == {"device": Made("torch.device", ("cpu",))}
    assert list(device.propose(moved)) == []


@pytest.mark.parametrize(
    ("op", "target", "plain"),
    [
        (Op.CALL_METHOD, "add_", "add"),
        (Op.CALL_FUNCTION, "operator.iadd", "operator.add"),
        (Op.CALL_FUNCTION, "torch.relu_", "torch.relu"),
    ],
)
def test_in_place_operators_give_new_values_that_later_readers_read(op, target, plain):
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("sin", Op.CALL_FUNCTION, "torch.sin", (Ref("x"),), value=SQUARE),
        Node("change", op, target, (Ref("sin"), 1), value=SQUARE),
        Node("cos", Op.CALL_FUNCTION, "torch.cos", (Ref("sin"),), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("cos"),),)),
    ]
    changed = next(in_place.propose(case_of(nodes, 1)))
    check_legal(changed)
    assert changed.graph.nodes[2].target == plain
    assert changed.graph.nodes[3].args == (Ref("change"),)


def test_what_has_no_other_form_stays_in_place():
    assert list(in_place.propose(one("copy_", Ref("x"), Ref("x"), op=Op.CALL_METHOD))) == []
    assert list(in_place.propose(one("operator.setitem", Ref("x"), 0, 1))) == []


@pytest.mark.parametrize(
    ("case", "op", "target", "args"),
    [
        (one("torch.ops.aten.relu.default", Ref("x")), Op.CALL_FUNCTION, "torch.relu", (Ref("x"),)),
        (one("torch.ops.aten.sum.dim_IntList", Ref("x"), [1]), Op.CALL_FUNCTION, "torch.sum", (Ref("x"), [1])),
        (one("torch.ops.aten.view.default", Ref("x"), [16]), Op.CALL_METHOD, "view", (Ref("x"), [16])),
        (
            one("torch.ops.prims.convert_element_type.default", Ref("x"), Name("torch.float64")),
            Op.CALL_METHOD,
            "to",
            (Ref("x"), Name("torch.float64")),
        ),
        (
            one("torch.ops.aten._softmax.default", Ref("x"), -1, False),
            Op.CALL_FUNCTION,
            "torch.softmax",
            (Ref("x"), -1),
        ),
        (
            one("torch.ops.aten.slice.Tensor", Ref("x"), 1, 0, 2),
            Op.CALL_FUNCTION,
            "operator.getitem",
            (Ref("x"), (slice(None), slice(None, 2, None))),
        ),
        (one("torch.ops.aten.gelu.default", Ref("x")), Op.CALL_FUNCTION, "torch.nn.functional.gelu", (Ref("x"),)),
        (one("torch.ops.aten.copy_.default", Ref("x"), 1.0), Op.CALL_METHOD, "copy_", (Ref("x"), 1.0)),
        (one("torch.ops.prims.rev.default", Ref("x"), [0]), Op.CALL_FUNCTION, "torch.flip", (Ref("x"), [0])),
    ],
)
def test_aten_operators_get_their_public_names(case, op, target, args):
    (public,) = names.propose(case)
    assert (call(public).op, call(public).target, call(public).args) == (op, target, args)


@pytest.mark.parametrize(
    "target",
    [
        "torch.relu",
        "torch.ops.mylib.f.default",
        "torch.ops.aten._fused_thing.default",
        "torch.ops.aten._fused_adam_.default",
        "torch.ops.prims.iota.default",
    ],
)
def test_what_has_no_public_name_keeps_its_own(target):
    assert list(names.propose(one(target, Ref("x")))) == []


def test_a_backward_that_is_not_needed_goes_and_its_gradients_with_it():
    case = replace(chain(1), phase=Phase.COMPILE_BACKWARD)
    case = replace(case, inputs=(replace(case.inputs[0], requires_grad=True),))
    best, _ = reduced(case, lambda c: True)
    assert best.phase is Phase.COMPILE_FORWARD
    assert not best.inputs[0].requires_grad
    kept, _ = reduced(case, lambda c: c.phase.backward)
    assert kept.phase is Phase.COMPILE_BACKWARD
    assert list(forward_only.propose(chain(1))) == []


def test_an_operator_that_only_mattered_before_another_pass_goes():
    """relu is needed as long as the sizes are large."""
    case = chain(3, {0: "relu", 1: "bug", 2: "tanh"})
    case = replace(case, inputs=(replace(case.inputs[0], shape=(64, 64), stride=(64, 1)),))

    def fails(candidate: Case) -> bool:
        found = targets(candidate)
        large = any(max(t.shape, default=0) > 8 for t in candidate.inputs)
        return "bug" in found and ("relu" in found or not large)

    best, _ = reduced(case, fails)
    assert targets(best) == ["bug"]


def test_every_proposal_with_one_operator_fewer_is_legal():
    for candidate in operators.propose(chain(4, {1: "relu"})):
        check_legal(candidate)
        assert len(targets(candidate)) == 3
    assert list(operators.propose(chain(1))) == []


def test_where_few_are_left_a_whole_stands_for_a_part_of_it():
    """The part of an input that is special is made anew by a cut, and is not special then."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("part", Op.CALL_FUNCTION, "operator.getitem", (Ref("x"), -1), value=replace(SQUARE, shape=(2,))),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("part"),), value=replace(SQUARE, shape=(2,))),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    case = case_of(nodes, 1)
    special = replace(case, inputs=(replace(case.inputs[0], flags=("zero",)),))
    best, _ = reduced(special, lambda c: needs("relu")(c) and any("zero" in v.flags for v in c.inputs))
    assert targets(best) == ["relu"]
    assert best.graph.nodes[1].args == (Ref("x"),)


def test_symbols_become_static_one_by_one_where_one_is_needed():
    value = Value("torch.float32", ("s0", "s1"))
    nodes = [
        Node("s0", Op.PLACEHOLDER, "s0"),
        Node("x", Op.PLACEHOLDER, "x", value=value),
        Node("view", Op.CALL_METHOD, "view", (Ref("x"), Ref("s0"), -1), value=value),
        Node("output", Op.OUTPUT, "output", ((Ref("view"),),)),
    ]
    case = case_of(nodes, 2)
    case = replace(
        case,
        inputs=(Scalar(4, "s0"), replace(case.inputs[1], dynamic=(0, 1))),
        surroundings=Surroundings(dynamic=True),
    )
    first, *single = dynamic.propose(case)
    assert first.inputs[0].dynamic == ()
    assert first.surroundings.dynamic is None
    without_s0 = single[0]
    check_legal(without_s0)
    assert [n.name for n in without_s0.graph.placeholders] == ["x"]
    assert without_s0.inputs[0].dynamic == (1,)
    assert without_s0.graph.placeholders[0].value.shape == (0, "s1")
    best, _ = reduced(case, lambda c: any(getattr(v, "dynamic", ()) for v in c.inputs) and needs("view")(c))
    assert sum(len(v.dynamic) for v in best.inputs if not isinstance(v, Scalar)) == 1


def test_inputs_that_share_memory_become_smaller_in_it():
    nodes = [
        Node("table", Op.PLACEHOLDER, "table", value=replace(SQUARE, shape=(5, 6))),
        Node("weight", Op.PLACEHOLDER, "weight", value=replace(SQUARE, shape=(4, 6))),
        Node("add", Op.CALL_METHOD, "add_", (Ref("table"), 6), value=replace(SQUARE, shape=(5, 6))),
        Node("output", Op.OUTPUT, "output", ((Ref("add"), Ref("weight")),)),
    ]
    case = case_of(nodes, 2)
    whole = replace(case.inputs[0], shape=(5, 6), stride=(6, 1), storage=0)
    part = replace(case.inputs[1], shape=(4, 6), stride=(6, 1), storage=0, offset=6)
    case = replace(case, inputs=(whole, part), storages=(Storage(120, kept=True),))
    best, _ = reduced(case, lambda c: c.inputs[0].storage == c.inputs[1].storage and c.inputs[1].offset > 0)
    assert [(v.shape, v.stride, v.offset) for v in best.inputs] == [((2, 2), (2, 1), 0), ((2, 2), (2, 1), 2)]
    assert best.storages[best.inputs[0].storage] == Storage(24)
    first = next(shared_memory.propose(case))
    assert [(v.shape, v.offset) for v in first.inputs] == [((3, 4), 0), ((2, 4), 4)]
    assert first.storages[first.inputs[0].storage] == Storage(48)


@pytest.mark.parametrize("other", [{"stride": (12, 2)}, {"flags": ("conj",)}, {"storage": 1}])
def test_memory_that_is_seen_in_other_ways_stays(other):
    case = case_of([Node("x", Op.PLACEHOLDER, "x", value=SQUARE), Node("y", Op.PLACEHOLDER, "y", value=SQUARE),
                    Node("output", Op.OUTPUT, "output", ((Ref("x"), Ref("y")),))], 2)  # fmt: skip
    one = replace(case.inputs[0], shape=(4, 6), stride=(6, 1), storage=0)
    case = replace(case, inputs=(one, replace(one, **other)), storages=(Storage(200), Storage(200)))
    assert list(shared_memory.propose(case)) == []
