"""What a Case has switched on beyond the default, switched off on its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op
from torchsleuth.case.model import Autocast, Case, Level, Surroundings, Tensor
from torchsleuth.locate import ablation

PLAIN = Case(
    Level.DYNAMO,
    Graph((Node("x", Op.PLACEHOLDER, "x"), Node("output", Op.OUTPUT, "output", ((),)))),
    (Tensor("torch.float32", (2,), (1,)),),
)


def rows(case: Case) -> list[str]:
    return [one.text for one in ablation.switched_on(case)]


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
            "remove `torch._inductor.config.freezing",
        ),
    ],
)
def test_each_thing_that_is_on_is_switched_off_alone(case: Case, without: str) -> None:
    [row] = rows(case)
    assert row.startswith(without)
    [changed] = [one.apply(case) for one in ablation.switched_on(case)]
    assert changed != case
    assert rows(changed) == []
