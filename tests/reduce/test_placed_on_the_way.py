"""A reduction puts a verified script in place as soon as no operator is too many, and earlier where that takes long."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from journaled_reduction import FAILURE
from toy_placing import WHOLE, ToyJudge, ToyPlacing, calls_relu
from toys import targets

from torchsleuth.case.ir import Source
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import Form
from torchsleuth.investigate import checkpoints
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.climbing import OUT_OF_TIME, climb_ladder
from torchsleuth.investigate.placing import Placing, Plan
from torchsleuth.investigate.reduction import Reduction
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.locate.ladder import Component
from torchsleuth.reduce.chance import Chance
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.journal import Journal
from torchsleuth.write.findings import Culprit, Finding


def reduction(tmp_path: Path, placing: ToyPlacing, judge: ToyJudge, whole: Case = WHOLE) -> Reduction:
    bench = Bench(judge, tmp_path, python=sys.executable, environment={}, deadline=30.0, memory=Journal())  # type: ignore[arg-type]
    way = Way(Form.COMPILE, False, tmp_path)
    best = bench.try_case(whole, tmp_path, Form.COMPILE)
    return Reduction(
        cast(Placing, placing), Journal(), bench, tmp_path, whole, None, best, way, True, 0.0, float("inf"),
        from_graph(whole),
    )  # fmt: skip


FOUND = Finding("f1", FAILURE, ops_before=40)


def test_what_has_no_operator_too_many_is_verified_before_it_is_made_simpler(tmp_path: Path) -> None:
    placing, judge = ToyPlacing(Plan()), ToyJudge(calls_relu)
    finding, known = reduction(tmp_path, placing, judge).run(FOUND)
    assert placing.placed == [(["relu"], 1), (["relu"], 3)]
    assert finding.reproduced
    assert finding.component is Component.INDUCTOR
    assert [rung.fails for rung in finding.rungs] == [False, False, False, True]
    assert known is not None
    assert known.complete
    assert all("torch.sin(" not in source for source in judge.asked[-3:]), "the ladder is climbed with what is small"


def test_judgements_of_the_ladder_do_not_count_as_steps_to_the_smallest(tmp_path: Path) -> None:
    placing, judge = ToyPlacing(Plan()), ToyJudge(calls_relu)
    finding, _ = reduction(tmp_path, placing, judge).run(FOUND)
    assert sum("backend=" in source for source in judge.asked) == 6, "of what was placed first, and of the smallest"
    assert finding.judged_to_smallest is not None
    assert finding.judged_to_smallest <= finding.judged - 3


def test_where_it_takes_long_whatever_there_is_is_verified_and_says_nothing_of_the_culprit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_LONG", 0.0)
    placing, judge = ToyPlacing(Plan()), ToyJudge(calls_relu)
    finding, _ = reduction(tmp_path, placing, judge).run(FOUND)
    assert placing.placed[0] == (targets(WHOLE), 1)
    assert placing.placed[-1] == (["relu"], 3)
    assert finding.culprit == Culprit("torch.relu", None, Source("net.py", 31))


def test_what_fails_in_no_fresh_process_is_not_reduced_further(tmp_path: Path) -> None:
    placing, judge = ToyPlacing(Plan(), good=lambda case: False), ToyJudge(calls_relu)
    finding, known = reduction(tmp_path, placing, judge).run(FOUND)
    assert not finding.reproduced
    assert known is None
    settled = next(at for at, source in enumerate(judge.asked) if "torch.sin(" not in source)
    assert len(judge.asked) - settled <= 2, "nothing was made simpler"


def test_where_the_simpler_script_is_no_good_no_operator_comes_back(tmp_path: Path) -> None:
    """Simplified inputs may pass in the judge by chance and fail in eager elsewhere; what was verified before stays."""
    plain = [value.shape for value in WHOLE.inputs if isinstance(value, Tensor)]
    placing = ToyPlacing(Plan(), good=lambda case: [v.shape for v in case.inputs if isinstance(v, Tensor)] == plain)
    finding, known = reduction(tmp_path, placing, ToyJudge(calls_relu)).run(FOUND)
    assert placing.placed == [(["relu"], 1), (["relu"], 3), (["relu"], 3)]
    assert finding.repro is not None
    assert (finding.repro.ops, finding.repro.runs) == (1, 3)
    assert known is not None
    assert targets(known.case) == ["relu"]


def test_what_turns_out_to_come_and_go_is_reduced_once_more(tmp_path: Path) -> None:
    """In every second judgement relu fails: with one each, too much may be kept."""
    placing = ToyPlacing(Plan(), good=lambda case: False, undecided=True)
    judge = ToyJudge(lambda source, number: "torch.relu(" in source and number % 2 == 1)
    finding, known = reduction(tmp_path, placing, judge).run(FOUND)
    assert finding.chance.flaky
    assert finding.reproduced
    assert known is not None
    assert targets(known.case) == ["relu"]


def test_a_ladder_that_is_cut_short_names_nobody(tmp_path: Path) -> None:
    judge = ToyJudge(calls_relu)
    bench = Bench(judge, tmp_path, python=sys.executable, environment={}, deadline=30.0)  # type: ignore[arg-type]
    way = Way(Form.COMPILE, False, tmp_path)
    for flaky in (False, True):
        finding = replace(FOUND, chance=Chance(3, 8)) if flaky else FOUND
        asker = Asker(bench, way, finding.chance, lambda: False)
        cut_short = climb_ladder(finding, WHOLE, asker, lambda _: None)
        assert cut_short == replace(finding, not_known=(OUT_OF_TIME,))


def test_ctrl_c_verifies_nothing_more(tmp_path: Path) -> None:
    placing = ToyPlacing(Plan())
    judge: Any = ToyJudge(calls_relu)
    work = reduction(tmp_path, placing, judge)
    placing.plan = Plan(stopped=lambda: True)
    finding, known = work.run(FOUND)
    assert placing.placed == []
    assert (finding.reproduced, known, finding.component) == (False, None, Component.UNKNOWN)
