"""What opens and closes a region goes together, with what is bound to it."""

from __future__ import annotations

from toys import SQUARE, case_of, check_legal, needs, reduced, targets

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref
from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import keep_only
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.units import has_levels, units

FUNCTORCH = "torch._functorch.predispatch"


def call(name: str, target: str, *args: Arg, valued: bool = True) -> Node:
    return Node(name, Op.CALL_FUNCTION, target, args, value=SQUARE if valued else None)


def jacobian() -> Case:
    """vmap over jvp, as jacfwd makes it."""
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        call("up", f"{FUNCTORCH}._vmap_increment_nesting", 4, "error", valued=False),
        call("batched", f"{FUNCTORCH}._add_batch_dim", Ref("x"), 0, 1),
        call("jvp_up", f"{FUNCTORCH}._jvp_increment_nesting", valued=False),
        call("on", "torch._C._set_fwd_grad_enabled", True, valued=False),
        call("level", f"{FUNCTORCH}._enter_dual_level", valued=False),
        call("dual", f"{FUNCTORCH}._make_dual", Ref("x"), Ref("batched")),
        call("sin", "torch.sin", Ref("dual")),
        call("bug", "torch.bug", Ref("sin")),
        Node("pair", Op.CALL_FUNCTION, f"{FUNCTORCH}._unpack_dual", (Ref("bug"),)),
        call("tangent", "operator.getitem", Ref("pair"), 1),
        call("unwrapped", f"{FUNCTORCH}._unwrap_for_grad", Ref("tangent"), 2),
        call("left", f"{FUNCTORCH}._exit_dual_level", valued=False),
        call("off", "torch._C._set_fwd_grad_enabled", True, valued=False),
        call("jvp_down", f"{FUNCTORCH}._jvp_decrement_nesting", valued=False),
        call("result", f"{FUNCTORCH}._remove_batch_dim", Ref("unwrapped"), 1, 4, 0),
        call("down", f"{FUNCTORCH}._vmap_decrement_nesting", valued=False),
        Node("output", Op.OUTPUT, "output", ((Ref("result"),),)),
    ]
    return case_of(nodes, 1)


def test_each_level_is_one_unit_with_what_is_bound_to_it():
    assert units(jacobian().graph) == [
        frozenset({"up", "batched", "result", "down"}),
        frozenset({"jvp_up", "unwrapped", "jvp_down"}),
        frozenset({"on", "off"}),
        frozenset({"level", "dual", "pair", "left"}),
        frozenset({"sin"}),
        frozenset({"bug"}),
    ]


def test_every_call_is_in_exactly_one_unit():
    graph = jacobian().graph
    names = [name for unit in units(graph) for name in unit]
    assert sorted(names) == sorted(n.name for n in graph.nodes if n.is_call and n.name != "tangent")


def test_levels_are_seen():
    assert has_levels(jacobian().graph)
    assert not has_levels(Graph(()))


def test_a_level_that_does_not_matter_goes_as_a_whole():
    best, _ = reduced(jacobian(), needs("bug"))
    assert targets(best) == ["bug"]


def test_a_level_that_matters_stays_as_a_whole():
    def fails(case: Case) -> bool:
        found = {t.rpartition(".")[2] for t in targets(case)}
        assert ("_enter_dual_level" in found) == ("_exit_dual_level" in found)
        return {"bug", "_make_dual"} <= found

    best, _ = reduced(jacobian(), fails)
    assert {t.rpartition(".")[2] for t in targets(best)} == {
        "bug",
        "_enter_dual_level",
        "_make_dual",
        "_unpack_dual",
        "_exit_dual_level",
    }


def test_nested_autocasts_are_told_apart():
    enter, leave = "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast"
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        call("outer", enter, "cpu", None, True, None, valued=False),
        call("inner", enter, "cpu", None, False, None, valued=False),
        call("relu", "torch.relu", Ref("x")),
        call("inner_end", leave, Ref("inner"), valued=False),
        call("outer_end", leave, Ref("outer"), valued=False),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    ]
    assert units(case_of(nodes, 1).graph) == [
        frozenset({"outer", "outer_end"}),
        frozenset({"inner", "inner_end"}),
        frozenset({"relu"}),
    ]


def test_grad_modes_are_switched_in_pairs():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        call("off", "torch._C._set_grad_enabled", False, valued=False),
        call("a", "torch.sin", Ref("x")),
        call("on", "torch._C._set_grad_enabled", True, valued=False),
        call("off_again", "torch._C._set_grad_enabled", False, valued=False),
        call("b", "torch.cos", Ref("a")),
        call("on_again", "torch._C._set_grad_enabled", True, valued=False),
        Node("output", Op.OUTPUT, "output", ((Ref("b"),),)),
    ]
    assert units(case_of(nodes, 1).graph) == [
        frozenset({"off", "on"}),
        frozenset({"a"}),
        frozenset({"off_again", "on_again"}),
        frozenset({"b"}),
    ]


def test_what_is_changed_in_place_is_no_leaf_when_it_becomes_an_input():
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        call("sin", "torch.sin", Ref("x")),
        Node("add_", Op.CALL_METHOD, "add_", (Ref("sin"), 1), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("add_"),),)),
    ]
    case = case_of(nodes, 1)
    cut = keep_only(case, {"add_"}, from_graph(case), bypass=False)
    check_legal(cut)
    assert [t.leaf for t in cut.inputs] == [False]
    only = keep_only(case, {"sin"}, from_graph(case), bypass=False)
    assert [t.leaf for t in only.inputs] == [True]
