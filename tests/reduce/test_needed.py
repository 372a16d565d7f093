"""Each part of a reduced Case is taken out alone; sizes and dtypes are changed one at a time."""

from __future__ import annotations

from dataclasses import replace

from toys import SQUARE, chain, targets

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref
from torchsleuth.case.model import Autocast, Backend, Case, Surroundings, Tensor
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.needed import parts
from torchsleuth.reduce.neighbour import nearest
from torchsleuth.reduce.variations import proposed


def with_input(**changes: object) -> Case:
    plain = Tensor("torch.float32", (2, 2), (2, 1))
    return replace(chain(1, {0: "relu"}), inputs=(replace(plain, **changes),))  # type: ignore[arg-type]


def names(case: Case) -> list[str]:
    return [part.name for part in parts(case)]


def test_the_only_operator_cannot_be_taken_out() -> None:
    assert names(with_input()) == []


def test_each_operator_is_taken_out_alone() -> None:
    case = chain(3, {0: "relu", 1: "sin", 2: "sin"})
    found = parts(case)
    assert [part.name for part in found] == ["torch.relu", "torch.sin (call 1 of 2)", "torch.sin (call 2 of 2)"]
    assert [targets(part.without) for part in found] == [["sin", "sin"], ["relu", "sin"], ["relu", "sin"]]


def test_the_value_that_eager_gives_takes_its_place() -> None:
    literal = Tensor("torch.float32", (2,), (1,), literal=(1.0, 2.0))
    [first, _] = parts(chain(2, {0: "abs", 1: "sqrt"}), Facts({"op_0": literal}))
    [stands_in] = first.without.inputs
    assert isinstance(stands_in, Tensor)
    assert (stands_in.fill, stands_in.literal) == ("literal", (1.0, 2.0))


def test_an_element_of_a_tuple_is_no_part_of_its_own() -> None:
    nodes = (
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("slice", Op.CALL_FUNCTION, "operator.getitem", (Ref("x"), 0), value=SQUARE),
        Node("pair", Op.CALL_FUNCTION, "torch.frexp", (Ref("slice"),)),
        Node("first", Op.CALL_FUNCTION, "operator.getitem", (Ref("pair"), 0), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("first"),),)),
    )
    assert "operator.getitem (call 1 of 2)" not in names(replace(with_input(), graph=Graph(nodes)))


def test_each_setting_is_taken_out_alone() -> None:
    now = Surroundings(
        Backend(mode="max-autotune", options={"epilogue_fusion": True}),
        dynamic=True,
        grad=False,
        autocast=(Autocast("cpu", "torch.bfloat16"),),
        configs=(("torch._inductor.config", "freezing", True),),
        environment={"OMP_NUM_THREADS": "1"},
        switches={"default_dtype": "torch.float64"},
        cache_hit=True,
    )
    case = replace(with_input(), surroundings=now)
    found = parts(case)
    assert [part.name for part in found] == [
        "torch._inductor.config.freezing = True",
        "OMP_NUM_THREADS=1 in the environment",
        "default dtype torch.float64",
        "mode='max-autotune'",
        "the option epilogue_fusion=True",
        "autocast to torch.bfloat16 on cpu",
        "no_grad",
        "a second run on a filled cache",
        "dynamic=True",
    ]
    assert all(part.without != case and part.without.graph == case.graph for part in found)
    assert len({repr(part.without.surroundings) for part in found}) == len(found)


def test_the_backward_and_what_is_odd_about_inputs_are_taken_out_alone() -> None:
    odd = with_input(shape=(3, 2), stride=(1, 3), requires_grad=True, flags=("conj",))
    assert names(odd) == ["requires_grad of x", "strides [1, 3] of x", "conj of x"]
    assert names(replace(with_input(requires_grad=True), phase=Phase.RUN_BACKWARD)) == ["the backward"]


def test_dynamic_dimensions_become_static() -> None:
    [part] = parts(with_input(dynamic=(0,)))
    assert part.name == "dynamic shapes"
    assert part.without.surroundings.dynamic is False


def test_sizes_and_dtypes_are_changed_one_at_a_time() -> None:
    found = list(proposed(with_input(shape=(2, 3), stride=(3, 1))))
    assert [one.what for one in found] == ["size 5 instead of 2", "size 5 instead of 3", "float64", "bfloat16"]
    tensors = [one.case.inputs[0] for one in found[:2]]
    assert [(t.shape, t.stride) for t in tensors if isinstance(t, Tensor)] == [((5, 3), (3, 1)), ((2, 5), (5, 1))]


def test_strided_and_integer_inputs_are_left_alone() -> None:
    assert list(proposed(with_input(stride=(1, 2), dtype="torch.int64"))) == []


def test_the_nearest_is_the_one_with_the_fewest_changed_lines() -> None:
    failing = "import torch\nx = torch.ones(2)\ny = torch.relu(x)\nz = torch.tanh(y)\n"
    near = failing.replace("torch.relu", "torch.sin")
    far = near.replace("torch.ones", "torch.zeros")
    assert nearest(failing, [far, near, failing, "nothing\n" * 40]) == ("-y = torch.relu(x)\n+y = torch.sin(x)", 1)
    assert nearest(failing, []) == ("", None)
    assert nearest(failing, ["\n".join(f"line {i}" for i in range(8))]) == ("", None), "too much to explain anything"
