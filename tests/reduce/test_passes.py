"""Each pass proposes what its row in the table says, and nothing where there is nothing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import SQUARE, case_of, chain, needs, needs_path, reduced, targets

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Node, Op, Ref, Value
from torchsleuth.case.model import (
    Autocast,
    Backend,
    Case,
    Check,
    Code,
    Level,
    Role,
    Scalar,
    Storage,
    Surroundings,
    Tensor,
)
from torchsleuth.reduce.lint import problems
from torchsleuth.reduce.passes import PASSES, arguments, dynamic, inputs, outputs, shapes, surroundings


def plain() -> Case:
    return chain(1)


def with_input(**changes: object) -> Case:
    case = plain()
    return replace(case, inputs=(replace(case.inputs[0], **changes),))


def test_every_pass_has_a_name_and_says_what_it_does():
    assert len({p.name for p in PASSES}) == len(PASSES)
    assert all(p.does for p in PASSES)


def test_a_plain_small_case_is_left_alone():
    case = with_input(shape=(2,), stride=(1,))
    assert [p.name for p in PASSES if list(p.propose(case))] == []


def test_configs_that_do_not_matter_go_and_the_one_that_does_stays():
    configs = (("torch._inductor.config", "a", 1), ("torch._inductor.config", "b", 2), ("torch._dynamo.config", "c", 3))
    around = Surroundings(configs=configs, environment={"TORCHINDUCTOR_X": "1"}, switches={"threads": 1})
    best, _ = reduced(replace(plain(), surroundings=around), lambda c: configs[1] in c.surroundings.configs)
    assert best.surroundings == Surroundings(configs=(configs[1],))


def test_random_numbers_stay_those_of_eager_where_numbers_are_compared():
    """Without that, every graph that draws looks wrong: another bug, or none."""
    like_eager = ("torch._inductor.config", "fallback_random", True)
    around = Surroundings(configs=(("torch._functorch.config", "activation_memory_budget", 0.0), like_eager))
    draws = [replace(n, target="torch.bernoulli") if n.is_call else n for n in plain().graph.nodes]
    case = replace(plain(), surroundings=around, graph=replace(plain().graph, nodes=tuple(draws)), check=Check())
    best, _ = reduced(case, lambda c: True)
    assert best.surroundings.configs == (like_eager,)
    for needs_no_care in (replace(case, check=None), replace(case, graph=plain().graph)):
        assert reduced(needs_no_care, lambda c: True)[0].surroundings.configs == ()


def test_autocast_mode_options_and_dynamic_go_at_once():
    around = Surroundings(
        Backend(options={"max_autotune": True}, mode="reduce-overhead"),
        True,
        autocast=(Autocast("cpu", "torch.bfloat16"),),
    )
    bare = next(surroundings.propose(replace(plain(), surroundings=around)))
    assert bare.surroundings == Surroundings()


def test_no_grad_goes_unless_something_asks_for_a_gradient():
    around = Surroundings(grad=False)
    assert [c.surroundings.grad for c in surroundings.propose(replace(plain(), surroundings=around))] == [True]
    asking = replace(with_input(requires_grad=True), surroundings=around)
    assert list(surroundings.propose(asking)) == []


def test_gradients_stay_where_the_backward_fails():
    case = with_input(requires_grad=True)
    assert [c.inputs[0].requires_grad for c in inputs.without_gradients(case)] == [False]
    assert list(inputs.without_gradients(replace(case, phase=Phase.RUN_BACKWARD))) == []


def test_parameters_become_arguments():
    assert [c.inputs[0].role for c in inputs.plain_arguments(with_input(role=Role.PARAMETER))] == [Role.ARGUMENT]


def test_strides_offsets_and_aliases_become_plain():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("y", Op.PLACEHOLDER, "y", value=SQUARE),
        Node("add", Op.CALL_FUNCTION, "operator.add", (Ref("x"), Ref("y")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("add"),),)),
    ]
    odd = Tensor("torch.float32", (4, 4), (1, 4), 3, storage=0)
    case = replace(case_of(nodes, 2), inputs=(odd, replace(odd, offset=0)), storages=(Storage(0),))
    both = next(inputs.contiguous(case))
    assert [(t.stride, t.offset) for t in both.inputs] == [((4, 1), 0)] * 2
    assert len({t.storage for t in both.inputs}) == 2
    assert max(t.storage for t in both.inputs) < len(both.storages)


def test_dtypes_become_float32_but_integers_stay():
    half = with_input(dtype="torch.float16")
    assert next(inputs.float32(half)).inputs[0].dtype == "torch.float32"
    assert list(inputs.float32(with_input(dtype="torch.int64"))) == []


def test_two_inputs_that_look_alike_become_one():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("y", Op.PLACEHOLDER, "y", value=SQUARE),
        Node("add", Op.CALL_FUNCTION, "operator.add", (Ref("x"), Ref("y")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("add"),),)),
    ]
    merged = next(inputs.shared(case_of(nodes, 2)))
    assert len(merged.inputs) == 1
    assert merged.graph.nodes[1].args == (Ref("x"), Ref("x"))


def test_an_input_that_is_written_to_does_not_become_another():
    nodes = [
        *(Node(name, Op.PLACEHOLDER, name, value=SQUARE) for name in "xyzw"),
        Node("foreach", Op.CALL_FUNCTION, "torch._foreach_add_", ((Ref("x"), Ref("y")), (Ref("z"), Ref("w")))),
        Node("output", Op.OUTPUT, "output", ((Ref("z"),),)),
    ]
    [merged] = inputs.shared(case_of(nodes, 4))
    assert [n.name for n in merged.graph.placeholders] == ["x", "y", "z"]
    assert merged.graph.nodes[3].args == ((Ref("x"), Ref("y")), (Ref("z"), Ref("z")))


def test_dynamic_sizes_become_static_and_their_symbols_numbers():
    symbolic = replace(SQUARE, shape=("s0", 4))
    nodes = [
        Node("s0", Op.PLACEHOLDER, "s0"),
        Node("x", Op.PLACEHOLDER, "x", value=symbolic),
        Node("view", Op.CALL_METHOD, "view", (Ref("x"), Ref("s0"), -1), value=symbolic),
        Node("output", Op.OUTPUT, "output", ((Ref("view"),),)),
    ]
    case = case_of(nodes, 2)
    x = replace(case.inputs[1], dynamic=(0,))
    case = replace(case, inputs=(Scalar(4, "s0"), x), surroundings=Surroundings(dynamic=True))
    static = next(dynamic.propose(case))
    assert static.surroundings.dynamic is None
    assert [n.name for n in static.graph.placeholders] == ["x"]
    assert static.graph.nodes[1].args == (Ref("x"), 4, -1)


def test_sizes_become_small_together_with_the_constants_that_equal_them():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("view", Op.CALL_METHOD, "view", (Ref("x"), 64, -1), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("view"),),)),
    ]
    case = case_of(nodes, 1)
    case = replace(case, inputs=(replace(case.inputs[0], shape=(64, 8), stride=(8, 1)),))
    best, _ = reduced(case, lambda c: c.graph.nodes[-2].args[1:2] == c.inputs[0].shape[:-1])
    assert best.inputs[0].shape == (2, 2)
    assert best.inputs[0].stride == (2, 1)


def test_a_size_that_must_stay_large_becomes_no_smaller_than_it_may():
    case = with_input(shape=(64, 64), stride=(64, 1))
    best, _ = reduced(case, lambda c: c.inputs[0].shape[0] >= 16)
    assert 16 <= best.inputs[0].shape[0] <= 32


def test_a_size_that_cannot_shrink_costs_few_judgements():
    case = with_input(shape=(64, 64), stride=(64, 1))
    _, oracle = reduced(case, lambda c: c.inputs[0].shape == (64, 64))
    assert oracle.judged <= 8


def test_a_size_that_two_dimensions_share_by_chance_shrinks_alone():
    case = with_input(shape=(9, 9), stride=(9, 1))
    best, _ = reduced(case, lambda c: c.inputs[0].shape[0] == 9)
    assert best.inputs[0].shape == (9, 2)
    assert best.inputs[0].stride == (2, 1)
    assert all(n.value is None or 9 not in n.value.shape[1:] for n in best.graph.nodes)


def test_of_a_size_that_shrinks_alone_it_is_not_said_what_follows_from_it():
    case = with_input(shape=(9, 9), stride=(9, 1))
    nodes = tuple(replace(n, value=replace(SQUARE, shape=(9, 9))) if n.value else n for n in case.graph.nodes)
    case = replace(case, graph=replace(case.graph, nodes=nodes))
    alone = next(c for c in shapes.propose(case) if c.inputs[0].shape == (2, 9))
    given, *made = [n.value for n in alone.graph.nodes if n.value]
    assert given.shape == (2, 9)
    # A value it still is, and no tuple; nor does any size of it seem known.
    assert [v.shape for v in made] == [("unknown", "unknown")] * len(made) != []


def test_what_is_known_of_values_follows_the_sizes():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=replace(SQUARE, shape=("s0", 64))),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=replace(SQUARE, shape=(64, 3))),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    case = case_of(nodes, 1)
    case = replace(case, inputs=(replace(case.inputs[0], shape=(64, 64), stride=(64, 1)),))
    smaller = next(shapes.propose(case))
    assert [n.value.shape for n in smaller.graph.nodes[:2]] == [("s0", 2), (2, 3)]


def test_the_order_of_strides_survives_a_smaller_size():
    case = with_input(shape=(8, 16), stride=(1, 8))
    assert next(shapes.propose(case)).inputs[0].stride == (1, 2)


def test_one_output_where_several_are():
    case = chain(3)
    many = replace(case.graph.output, args=((Ref("op_0"), Ref("op_1"), Ref("op_2")),))
    case = replace(case, graph=replace(case.graph, nodes=(*case.graph.nodes[:-1], many)))
    assert [c.graph.output.args[0] for c in outputs.propose(case)][:3] == [
        (Ref("op_0"),),
        (Ref("op_1"),),
        (Ref("op_2"),),
    ]


def writing(target: str, to: str) -> Case:
    """x, a copy of it, and an operator that writes to one of both."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("copy", Op.CALL_METHOD, "clone", (Ref("x"),), value=SQUARE),
        Node("write", Op.CALL_METHOD, target, (Ref(to), 1), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("write"),),)),
    ]
    return case_of(nodes, 1)


def test_none_where_what_is_written_to_an_input_is_seen():
    assert [c.graph.output.args[0] for c in outputs.propose(writing("add_", "x"))] == [()]
    best, _ = reduced(writing("add_", "x"), needs("add_"))
    assert (targets(best), best.graph.output.args[0]) == (["add_"], ())


@pytest.mark.parametrize(
    "case",
    [
        writing("add_", "copy"),
        writing("add", "x"),
        replace(writing("add_", "x"), phase=Phase.RUN_BACKWARD),
        replace(writing("add_", "x"), level=Level.ATEN),
    ],
)
def test_one_output_stays_where_nobody_would_see_a_thing(case):
    assert list(outputs.propose(case)) == []
    nothing = replace(case.graph.output, args=((),))
    silent = replace(case, graph=replace(case.graph, nodes=(*case.graph.nodes[:-1], nothing)))
    assert list(problems(silent)) == ["nothing is given back"]


def test_elements_that_are_no_output_any_more_are_not_taken_out():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("both", Op.CALL_FUNCTION, "torch.cummin", (Ref("x"), 0)),
        Node("values", Op.CALL_FUNCTION, "operator.getitem", (Ref("both"), 0), value=SQUARE),
        Node("indices", Op.CALL_FUNCTION, "operator.getitem", (Ref("both"), 1), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("values"), Ref("indices")),)),
    ]
    first, second, *_ = outputs.propose(case_of(nodes, 1))
    assert [n.name for n in first.graph.nodes] == ["x", "both", "values", "output"]
    assert [n.name for n in second.graph.nodes] == ["x", "both", "indices", "output"]


def test_keyword_arguments_and_trailing_constants_go_but_references_stay():
    node = Node("op", Op.CALL_FUNCTION, "torch.add", (Ref("x"), 2), {"alpha": 3, "out": Ref("x")}, value=SQUARE)
    case = chain(1)
    case = replace(
        case,
        graph=replace(case.graph, nodes=(case.graph.nodes[0], node, replace(case.graph.output, args=((Ref("op"),),)))),
    )
    found = [(c.graph.nodes[1].args, dict(c.graph.nodes[1].kwargs)) for c in arguments.propose(case)]
    assert ((Ref("x"), 2), {"out": Ref("x")}) in found
    assert ((Ref("x"),), {"alpha": 3, "out": Ref("x")}) in found


def test_the_source_of_operators_and_kernels_that_are_gone_goes_too():
    case = plain()
    used = next(n.target for n in case.graph.nodes if n.is_call)
    own = Code("operator my::op", "torch.ops.my.op", "...")
    codes = (own, Code("triton kernel add:0", "add", "..."))
    bare = next(surroundings.propose(replace(case, surroundings=Surroundings(code=codes))))
    assert bare.surroundings.code == ()
    nodes = tuple(replace(n, target="torch.ops.my.op.default") if n.target == used else n for n in case.graph.nodes)
    calling = replace(case, graph=replace(case.graph, nodes=nodes), surroundings=Surroundings(code=codes))
    assert next(surroundings.propose(calling)).surroundings.code == (own,)


@pytest.mark.parametrize("phase", [Phase.COMPILE_FORWARD, Phase.RUN_FORWARD])
def test_smaller_sizes_are_tried_again_once_places_are_plain_numbers(phase):
    """Places up to 24 forbid a table of two rows; once they are all the same, it may be as small as any."""
    nodes = [
        Node("table", Op.PLACEHOLDER, "table", value=replace(SQUARE, shape=(24,))),
        Node("places", Op.PLACEHOLDER, "places", value=Value("torch.int64", (90,), (1,))),
        Node("scatter", Op.CALL_METHOD, "scatter", (Ref("table"), 0, Ref("places"), 1.0), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("scatter"),),)),
    ]
    case = case_of(nodes, 2)
    table = replace(case.inputs[0], shape=(24,), stride=(1,))
    places = replace(case.inputs[1], dtype="torch.int64", shape=(90,), stride=(1,), low=0, high=23)

    def fails(candidate: Case) -> bool:
        rows, count = (v.shape[0] for v in candidate.inputs)
        in_range = rows >= 24 or candidate.inputs[1].fill in ("ones", "zeros")
        return in_range and count > rows and len(targets(candidate)) == 1

    best, _ = reduced(replace(case, inputs=(table, places), phase=phase), fails)
    assert [v.shape for v in best.inputs] == [(2,), (3,)]


def places(**changes: object) -> Case:
    """A table of twelve rows, and random places in it."""
    nodes = [
        Node("table", Op.PLACEHOLDER, "table", value=replace(SQUARE, shape=(12, 12))),
        Node("rows", Op.PLACEHOLDER, "rows", value=Value("torch.int64", (5,), (1,))),
        Node("taken", Op.CALL_FUNCTION, "operator.getitem", (Ref("table"), Ref("rows")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("taken"),),)),
    ]
    case = case_of(nodes, 2)
    table = replace(case.inputs[0], shape=(12, 12), stride=(12, 1))
    rows = replace(case.inputs[1], dtype="torch.int64", shape=(5,), stride=(1,), low=0, high=9)
    return replace(case, inputs=(table, replace(rows, **changes)))


def test_places_stay_in_what_becomes_smaller():
    for candidate in shapes.propose(places()):
        table, rows = candidate.inputs
        assert rows.high < min(table.shape)
    assert next(shapes.propose(places())).inputs[1].high == 1
    best, _ = reduced(places(), lambda c: c.inputs[1].high < min(c.inputs[0].shape))
    assert [v.shape for v in best.inputs] == [(2,), (2,)]


@pytest.mark.parametrize(
    "changes",
    [{"low": -3}, {"low": None, "high": None}, {"fill": "zeros"}, {"high": 50}, {"dtype": "torch.float32"}],
)
def test_numbers_that_are_no_places_there_stay_as_they_are(changes):
    case = places(**changes)
    assert {(c.inputs[1].low, c.inputs[1].high) for c in shapes.propose(case)} == {
        (case.inputs[1].low, case.inputs[1].high)
    }


def test_sizes_of_what_the_graph_makes_become_small():
    square = replace(SQUARE, shape=(6, 4), stride=None)
    nodes = [
        Node("full", Op.CALL_FUNCTION, "torch.full", ((6, 4), 6.0), value=square),
        Node("amax", Op.CALL_FUNCTION, "torch.amax", (Ref("full"), (-1,)), value=replace(square, shape=(6,))),
        Node("output", Op.OUTPUT, "output", ((Ref("amax"),),)),
    ]
    best, _ = reduced(case_of(nodes, 0), needs_path("full", "amax"))
    made = best.graph.nodes[0]
    assert made.args[0] == (2, 2)
    assert made.value is not None
    assert made.value.shape == (2, 2)
