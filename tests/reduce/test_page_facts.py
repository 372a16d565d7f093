"""What is needed, what may vary, and the nearest script that passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toys import SQUARE, chain

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.case.model import Autocast, Backend, Case, Role, Surroundings, Tensor
from torchsleuth.reduce.needed import needed
from torchsleuth.reduce.neighbour import nearest
from torchsleuth.reduce.variations import proposed, vary


def with_input(**changes: object) -> Case:
    plain = Tensor("torch.float32", (2, 2), (2, 1))
    return replace(chain(1, {0: "relu"}), inputs=(replace(plain, **changes),))  # type: ignore[arg-type]


def test_what_is_plain_is_not_worth_a_word() -> None:
    assert needed(with_input()) == ("torch.relu",)


def test_what_is_not_plain_is_named() -> None:
    odd = with_input(dtype="torch.float16", shape=(3, 2), stride=(1, 3), dynamic=(0,), requires_grad=True)
    odd = replace(odd, phase=Phase.RUN_BACKWARD)
    assert needed(odd) == (
        "torch.relu",
        "the backward",
        "x: float16, sizes [3, 2], strides [1, 3], dynamic in 0, requires_grad",
    )
    assert needed(with_input(role=Role.PARAMETER, flags=("conj",))) == ("torch.relu", "x: conj, a parameter")


def test_surroundings_are_named() -> None:
    now = Surroundings(
        Backend(mode="max-autotune", options={"epilogue_fusion": True}),
        dynamic=True,
        grad=False,
        autocast=(Autocast("cpu", "torch.bfloat16"),),
        configs=(("torch._inductor.config", "freezing", True),),
        environment={"OMP_NUM_THREADS": "1"},
        switches={"default_dtype": "torch.float64"},
    )
    assert needed(replace(with_input(), surroundings=now)) == (
        "torch.relu",
        "torch._inductor.config.freezing = True",
        "OMP_NUM_THREADS=1 in the environment",
        "default dtype torch.float64",
        "mode='max-autotune'",
        "the option epilogue_fusion=True",
        "dynamic=True",
        "no_grad",
        "autocast to torch.bfloat16 on cpu",
    )


def test_calls_are_counted_and_a_long_list_is_cut() -> None:
    assert needed(replace(chain(3), inputs=with_input().inputs)) == ("3 calls of torch.sin",)
    many = replace(chain(30, {i: f"op{i}" for i in range(30)}), inputs=with_input().inputs)
    assert len(needed(many)) == 13
    assert needed(many)[-1] == "and 18 more things"


def test_a_slice_of_a_tensor_is_an_operator_and_an_element_of_a_tuple_is_none() -> None:
    nodes = [
        Node("x", Op.PLACEHOLDER, "x", value=SQUARE),
        Node("slice", Op.CALL_FUNCTION, "operator.getitem", (Ref("x"), 0), value=SQUARE),
        Node("pair", Op.CALL_FUNCTION, "torch.frexp", (Ref("slice"),)),
        Node("first", Op.CALL_FUNCTION, "operator.getitem", (Ref("pair"), 0), value=SQUARE),
        Node("output", Op.OUTPUT, "output", ((Ref("first"),),)),
    ]
    graph = replace(with_input().graph, nodes=tuple(nodes))
    assert needed(replace(with_input(), graph=graph)) == ("operator.getitem", "torch.frexp")


def test_each_part_is_varied_once_and_what_says_nothing_is_not_said() -> None:
    asked: list[Tensor] = []

    def judge(cases: Sequence[Case]) -> list[bool | None]:
        tensors = [case.inputs[0] for case in cases]
        asked.extend(t for t in tensors if isinstance(t, Tensor))
        return [{"torch.float64": False, "torch.bfloat16": None}.get(t.dtype, True) for t in asked]

    said = vary(with_input(shape=(2, 3), stride=(3, 1)), judge)
    assert said == ("It fails also with size 5 for 2 or size 5 for 3.", "It passes with float64.")
    assert [t.shape for t in asked[:2]] == [(5, 3), (2, 5)]
    assert [t.stride for t in asked[:2]] == [(3, 1), (5, 1)]


def test_strided_and_integer_inputs_are_left_alone() -> None:
    assert list(proposed(with_input(stride=(1, 2), dtype="torch.int64"))) == []


def test_the_nearest_is_the_one_with_the_fewest_changed_lines() -> None:
    failing = "import torch\nx = torch.ones(2)\ny = torch.relu(x)\nz = torch.tanh(y)\n"
    near = failing.replace("torch.relu", "torch.sin")
    far = near.replace("torch.ones", "torch.zeros")
    assert nearest(failing, [far, near, failing, "nothing\n" * 40]) == "-y = torch.relu(x)\n+y = torch.sin(x)"
    assert nearest(failing, []) == ""
    assert nearest(failing, ["\n".join(f"line {i}" for i in range(8))]) == "", "too much to explain anything"
