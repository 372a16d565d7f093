"""The passes for wrong numbers."""

from __future__ import annotations

from dataclasses import replace

from toys import SQUARE, case_of, chain

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.case.model import Case, Check, Storage, Tensor
from torchsleuth.reduce.passes import numbers


def wrong(length: int = 1, phase: Phase = Phase.RUN_FORWARD) -> Case:
    return replace(chain(length), check=Check(), phase=phase)


def fills(case: Case) -> list[str]:
    return [v.fill for v in case.inputs if isinstance(v, Tensor)]


def test_of_several_values_one_is_compared() -> None:
    case = wrong()
    (x,) = case.inputs
    assert isinstance(x, Tensor)
    backward = replace(case, phase=Phase.RUN_BACKWARD, inputs=(replace(x, requires_grad=True),))
    assert [c.check.only for c in numbers.one_result(backward) if c.check] == [("out",), ("x.grad",)]
    assert list(numbers.one_result(case)) == []
    assert list(numbers.one_result(chain(1))) == []


def test_a_backward_begins_with_ones() -> None:
    (plain,) = numbers.plain_tangents(wrong(phase=Phase.RUN_BACKWARD))
    assert plain.check == Check(tangents="ones")
    assert list(numbers.plain_tangents(plain)) == []
    assert list(numbers.plain_tangents(wrong())) == []


def test_inputs_become_plainer_step_by_step() -> None:
    assert [fills(c) for c in numbers.made_inputs(wrong())] == [["ones"], ["zeros"], ["arange"]]
    counted = next(c for c in numbers.made_inputs(wrong()) if fills(c) == ["arange"])
    assert [fills(c) for c in numbers.made_inputs(counted)] == [["ones"], ["zeros"]]


def test_what_held_a_nan_may_be_made_of_them() -> None:
    case = wrong()
    (x,) = case.inputs
    assert isinstance(x, Tensor)
    read = replace(case, inputs=(replace(x, nans=True),), storages=(Storage(64, kept=True),))
    assert ["nan"] in [fills(c) for c in numbers.made_inputs(read)]
    assert ["nan"] not in [fills(c) for c in numbers.made_inputs(replace(read, inputs=(x,)))]
    made = replace(case, inputs=(replace(x, nans=True).of_nans(),))
    assert fills(made) == ["nan"]
    assert [fills(c) for c in numbers.made_inputs(made)] == [["ones"], ["zeros"], ["arange"], [""]]
    assert x.of_nans() == x


def test_each_input_gets_memory_of_its_own() -> None:
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("y", Op.PLACEHOLDER, "y", value=SQUARE),
        Node("sum", Op.CALL_FUNCTION, "operator.add", (Ref("x"), Ref("y")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("sum"),),)),
    ]
    both = replace(case_of(nodes, inputs=2), check=Check(), phase=Phase.RUN_FORWARD)
    first = next(iter(numbers.made_inputs(both)))
    assert fills(first) == ["ones", "ones"]
    assert len({v.storage for v in first.inputs if isinstance(v, Tensor)}) == 2


def test_nothing_is_filled_while_only_compiling() -> None:
    assert list(numbers.made_inputs(replace(wrong(), phase=Phase.COMPILE_FORWARD))) == []


def test_data_becomes_made_or_a_literal_where_it_is_small() -> None:
    case = wrong()
    (x,) = case.inputs
    assert isinstance(x, Tensor)
    kept = replace(case, storages=(Storage(64, kept=True),), inputs=(replace(x, literal=tuple(range(16))),))
    proposals = list(numbers.made_inputs(kept))
    assert [fills(c) for c in proposals] == [["ones"], ["zeros"], ["arange"], [""], ["literal"]]
    for simpler in proposals:
        (tensor,) = simpler.inputs
        assert isinstance(tensor, Tensor)
        assert not simpler.storages[tensor.storage].kept


def test_where_it_says_where_to_write_a_place_is_not_written_twice() -> None:
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("at", Op.PLACEHOLDER, "at"),
        Node("copied", Op.CALL_METHOD, "index_copy", (Ref("x"), 0, Ref("at"), Ref("x")), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("copied"),),)),
    ]
    case = replace(case_of(nodes, inputs=2), check=Check(), phase=Phase.RUN_FORWARD)
    (x, _) = case.inputs
    places = Tensor("torch.int64", (2,), (1,), storage=1, low=0, high=1, distinct=True)
    case = replace(case, inputs=(x, places), storages=(*case.storages, Storage(0)))
    tried = {fills(c)[1] for c in numbers.made_inputs(case)}
    assert tried == {"", "arange"}
    anywhere = replace(case, inputs=(x, replace(places, distinct=False)))
    assert {fills(c)[1] for c in numbers.made_inputs(anywhere)} >= {"ones", "zeros", "arange"}
