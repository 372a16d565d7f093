"""What a Case has switched on beyond the default, switched off on its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op
from torchsleuth.case.model import Autocast, Case, Level, Surroundings, Tensor
from torchsleuth.judge.applied import Applied
from torchsleuth.locate import ablation, workarounds

PLAIN = Case(
    Level.DYNAMO,
    Graph((Node("x", Op.PLACEHOLDER, "x"), Node("output", Op.OUTPUT, "output", ((),)))),
    (Tensor("torch.float32", (2,), (1,)),),
)


def rows(case: Case) -> list[str]:
    return [row.without for row in ablation.ablate(case, lambda cases: [False] * len(cases))]


def test_a_plain_case_asks_nothing() -> None:
    assert rows(PLAIN) == []


@pytest.mark.parametrize(
    ("case", "without"),
    [
        (replace(PLAIN, surroundings=Surroundings(autocast=(Autocast("cpu", "torch.bfloat16", True),))), "autocast"),
        (replace(PLAIN, phase=Phase.RUN_BACKWARD), "the backward"),
        (replace(PLAIN, inputs=(replace(PLAIN.inputs[0], requires_grad=True),)), "requires_grad"),
        (replace(PLAIN, surroundings=Surroundings(inference=True)), "inference mode"),
        (replace(PLAIN, surroundings=Surroundings(dynamic=True)), "torch.compile(..., dynamic=False)"),
        (replace(PLAIN, surroundings=Surroundings(switches={"deterministic": True})), "the switch deterministic"),
        (replace(PLAIN, surroundings=Surroundings(environment={"OMP_NUM_THREADS": "1"})), "OMP_NUM_THREADS in the"),
        (
            replace(PLAIN, surroundings=Surroundings(configs=(("torch._inductor.config", "freezing", True),))),
            "leave out",
        ),
    ],
)
def test_each_thing_that_is_on_is_switched_off_alone(case: Case, without: str) -> None:
    [row] = rows(case)
    assert row.startswith(without)
    [changed] = [one.apply(case) for one in ablation.switched_on(case)]
    assert changed != case
    assert rows(changed) == []


def test_answers_stand_beside_their_rows() -> None:
    case = replace(PLAIN, surroundings=Surroundings(inference=True, switches={"deterministic": True}))
    found = ablation.ablate(case, lambda cases: [not c.surroundings.switches for c in cases])
    assert [(row.without, row.passes) for row in found] == [
        ("inference mode", False),
        ("the switch deterministic", True),
    ]


def test_a_pass_is_left_out_by_its_name_and_a_lowering_is_not() -> None:
    [only] = workarounds.without(Applied("post_grad_passes", "remove_noop_ops"))
    assert only.text == "torch._inductor.config.disabled_passes = 'REMOVE_NOOP_OPS'"
    assert workarounds.without(Applied("lowering", "aten.relu.default")) == []
    assert workarounds.without(None) == []


def test_what_a_switch_switches() -> None:
    assert workarounds.switched_by("torch._inductor.config.cpp.simdlen = 1") == "vectorised C++"
    both = "torch._inductor.config.allow_buffer_reuse = False\ntorch._inductor.config.inplace_buffers = False"
    assert workarounds.switched_by(both) == "buffer reuse and in-place buffers"
    assert workarounds.switched_by('torch.compile(..., backend="aot_eager")') is None
