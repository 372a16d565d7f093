"""What the error names is reduced before the whole is judged; then the whole is judged, to see what helps it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from journaled_reduction import FAILURE
from toy_placing import WHOLE, ToyJudge, ToyPlacing, calls_relu

from torchsleuth.case import folder
from torchsleuth.diagnose.claim import Topic, of
from torchsleuth.errors import JudgeBroken
from torchsleuth.investigate import investigation as investigate, starts
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.placing import Means, Placing, Plan
from torchsleuth.judge.engines import LocalEngines
from torchsleuth.reduce.facts import from_graph
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process
from torchsleuth.write.findings import Finding

NAMED = replace(FAILURE, text="LoweringException: no\n  target: aten.relu.default")
ALL = "torch.sin("  # in the scripts of the whole, and of nothing that is small


class Judge(ToyJudge):
    def cancel(self) -> None: ...

    def close(self) -> None: ...


class OneJudge(LocalEngines):
    """Engines whose judge is a toy."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def open_judge(self, *_: object, **__: object) -> Any:
        return self._judge


def looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[[str, int], bool]
) -> tuple[Finding, ToyPlacing, Judge]:
    judge = Judge(fails)
    monkeypatch.setattr(starts.minimise, "probe", lambda case, *_: from_graph(case))
    folder.save(replace(WHOLE, failure=NAMED), tmp_path / "kept")
    plan = Plan(minimize=True, budget=600.0)
    placing = ToyPlacing(plan)
    means = Means(sys.executable, {}, (), 2, 30.0, OneJudge(judge))
    with Investigation(means, tmp_path / "out", placing.say, plan) as work:
        work._placing = cast(Placing, placing)
        found = Found(NAMED, tmp_path / "kept", cast(Process, None))
        return work.look_into(found, "f1", first=True), placing, judge


def test_the_whole_is_judged_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding, placing, judge = looked_into(tmp_path, monkeypatch, calls_relu)
    assert finding.reproduced
    assert placing.placed == [(["relu"], 1), (["relu"], 3)]
    first = next(at for at, source in enumerate(judge.asked) if ALL in source)
    assert all(ALL not in source for source in judge.asked[:first])
    assert first >= len(finding.rungs)
    assert investigate._NOT_THE_WHOLE not in finding.not_known


def test_a_whole_that_passes_alone_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding, _, judge = looked_into(
        tmp_path, monkeypatch, lambda source, number: calls_relu(source, number) and ALL not in source
    )
    assert finding.reproduced
    assert any(ALL in source for source in judge.asked)
    assert investigate._NOT_THE_WHOLE in finding.not_known
    assert finding.workaround is None, "none was seen to help the user's own Case"


def test_a_judge_that_breaks_takes_nothing_away_that_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(source: str, number: int) -> bool:
        if ALL in source:
            raise JudgeBroken("the judge is gone")
        return calls_relu(source, number)

    finding, placing, _ = looked_into(tmp_path, monkeypatch, breaks)
    assert finding.reproduced
    assert not finding.why_not
    assert placing.said[-1] == "no more is found out: the judge is gone"


def test_a_guess_that_passes_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names relu, and it takes the sine before it, too."""

    def both(source: str, number: int) -> bool:
        at = source.find("torch.relu(")
        return at >= 0 and ALL in source[:at]

    finding, placing, judge = looked_into(tmp_path, monkeypatch, both)
    assert placing.placed[-1] == (["sin", "relu"], 3)
    whole: Any = next(at for at, source in enumerate(judge.asked) if source.count(ALL) > 30)
    assert whole <= 8
    assert finding.judged_to_smallest is not None


def test_what_passes_with_one_part_varied_is_the_nearest_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_in_float64(source: str, number: int) -> bool:
        return calls_relu(source, number) and "float64" not in source

    finding, _, _ = looked_into(tmp_path, monkeypatch, not_in_float64)
    assert "Passes with float64." in [one.text for one in finding.claims]
    [nearest] = of(finding.claims, Topic.NEIGHBOUR)
    assert nearest.about == "float64"
    removed, added = finding.neighbour.splitlines()
    assert added[1:] == removed[1:].removesuffix(")") + ", dtype=torch.float64)"
