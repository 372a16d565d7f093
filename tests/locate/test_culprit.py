"""Which operator is to blame, and when none is named."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reduce"))

import pytest
from toys import chain

from torchsleuth.case.ir import Node
from torchsleuth.case.model import Case
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match
from torchsleuth.locate import culprit
from torchsleuth.locate.culprit import Evidence
from torchsleuth.locate.divergence import Diverging
from torchsleuth.locate.inside import Located

FAILS = ("j1",)


def left(*operators: str) -> Case:
    return chain(len(operators), dict(enumerate(operators)))


def node(case: Case, name: str) -> Node:
    return next(n for n in case.graph.nodes if n.name == name)


def blamed(case: Case, evidence: Evidence) -> str | None:
    found = culprit.find(case, evidence)
    if found is None:
        return None
    assert found.claim.judgements
    assert found.claim.about == found.node.target
    return found.node.target


def located(name: str = "aten.relu.default", stage: str = "lowering", partners: tuple[str, ...] = ()) -> Located:
    said = Claim(ClaimKind.CULPRIT, Topic.INSIDE, name, "Fails in it.", ("j2", "j3"))
    return Located(Applied(stage, name), 1, 3, True, partners=partners, claims=(said,))


def diverging(case: Case, name: str, match: Match = Match.SAME) -> Diverging:
    wrong = node(case, name)
    return Diverging((wrong,), {name: (0.5, 0.0)}, wrong, Judgement("j9", "", match, Engine.WORKER))


def test_the_only_operator_is_to_blame() -> None:
    assert blamed(left("relu"), Evidence(FAILS)) == "torch.relu"


def test_nobody_is_to_blame_in_what_was_not_verified() -> None:
    assert blamed(left("relu"), Evidence(())) is None


def test_of_several_none_is_named_without_evidence() -> None:
    """Not the last one: that may only carry a wrong value on."""
    assert blamed(left("atan2", "mul"), Evidence(FAILS)) is None


def test_what_the_error_names_is_to_blame_where_it_is_left_once() -> None:
    assert blamed(left("sin", "cummin"), Evidence(FAILS, named="aten.cummin.default")) == "torch.cummin"
    assert blamed(left("cummin", "cummin"), Evidence(FAILS, named="aten.cummin.default")) is None
    assert blamed(left("sin", "cos"), Evidence(FAILS, named="aten.cummin.default")) is None


def test_the_first_whose_own_result_is_wrong_is_to_blame() -> None:
    case = left("sin", "atan2", "mul")
    assert blamed(case, Evidence(FAILS, diverging=diverging(case, "op_1"))) == "torch.atan2"


@pytest.mark.parametrize("match", [Match.OTHER, Match.UNKNOWN, Match.PASSED])
def test_a_result_that_is_wrong_in_another_way_names_nobody(match: Match) -> None:
    case = left("sin", "atan2", "mul")
    assert blamed(case, Evidence(FAILS, diverging=diverging(case, "op_1", match))) is None


def test_the_operator_of_the_lowering_to_blame() -> None:
    assert blamed(left("sin", "relu"), Evidence(FAILS, inside=located())) == "torch.relu"


def test_a_lowering_that_is_not_the_only_one_names_nobody() -> None:
    found = located(partners=("aten.sin.default",))
    assert blamed(left("sin", "relu"), Evidence(FAILS, inside=found)) is None


@pytest.mark.parametrize("found", [located("aten.lift_fresh_copy.default"), located("noop", "joint_graph_passes")])
def test_a_step_that_computes_nothing_names_nobody(found: Located) -> None:
    assert blamed(left("sin", "relu"), Evidence(FAILS, inside=found)) is None


def test_a_step_that_was_not_seen_to_matter_names_nobody() -> None:
    found = replace(located(), alone=False, claims=())
    assert blamed(left("sin", "relu"), Evidence(FAILS, inside=found)) is None


def test_what_is_not_in_the_repro_is_not_named() -> None:
    assert blamed(left("sin", "cos"), Evidence(FAILS, inside=located())) is None
