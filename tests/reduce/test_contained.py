"""Faults of our own, planted in the midst of an investigation: what was found before them stays, and they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from journaled_reduction import FAILURE
from toy_placing import WHOLE, ToyJudge, ToyPlacing, calls_relu, with_lines
from toys import chain, targets

from torchsleuth.case import folder
from torchsleuth.case.model import Case
from torchsleuth.errors import JudgeBroken
from torchsleuth.investigate import afterwards, from_source, investigation as investigation_module, minimise, starts
from torchsleuth.investigate.contained import Contained
from torchsleuth.investigate.own_faults import LOG, Faults
from torchsleuth.investigate.placing import Means, Placing, Plan
from torchsleuth.judge.base import Judge
from torchsleuth.locate.ladder import Component
from torchsleuth.reduce.facts import from_graph
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process
from torchsleuth.write.findings import Finding, Repro

SMALL = with_lines(chain(4, {2: "relu"}))


class Believing(ToyPlacing):
    """What is placed whole is not said to be reduced."""

    def write(self, *given: Any, reduced: bool = False, **more: Any) -> Repro:
        return super().write(*given, reduced=reduced, **more)

    def say_where(self, repro: Repro, *_: Any, reduced: bool = False) -> Repro:
        return repro


class Looking(Contained):
    """Judges by reading, and verifies by believing."""

    def __init__(self, out: Path, good: Callable[[Case], bool] = lambda case: True, **plan: Any) -> None:
        self.faults = Faults(out)
        means = Means(sys.executable, {}, (), 2, 30.0)
        super().__init__(means, out, lambda _: None, Plan(**{"minimize": True, **plan}), None, self.faults)
        self.placing = Believing(self._plan, good)
        self._placing = cast(Placing, self.placing)

    def _judge_for(self, devices: frozenset[str], environment: Mapping[str, str] | None = None) -> Judge:
        return cast(Judge, ToyJudge(calls_relu))


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    monkeypatch.setattr(investigation_module, "setting", lambda *_: "here")
    monkeypatch.setattr(investigation_module, "versions_of", lambda *_: {"torch": "2.13.0"})
    monkeypatch.setattr(starts.Probe, "facts", lambda _: from_graph(WHOLE))
    monkeypatch.setattr(afterwards.Afterwards, "learn", lambda self, finding, known: finding)
    folder.save(replace(WHOLE, failure=FAILURE, phase=FAILURE.phase), tmp_path / "kept")
    return Found(FAILURE, tmp_path / "kept", Process(tmp_path, {}), ended_program=True)


def fails(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, before: Callable[[], None] = lambda: None) -> None:
    def ours(*_: Any, **__: Any) -> Any:
        before()
        raise KeyError("ours")

    monkeypatch.setattr(where, name, ours)


def told(looking: Looking, tmp_path: Path) -> None:
    [note] = looking.faults.notes
    assert note.startswith("torchsleuth itself failed while ")
    assert "(KeyError: 'ours'); see logs/trouble.log, and please report it" in note
    log = (tmp_path / LOG).read_text()
    assert "Traceback" in log
    assert 'raise KeyError("ours")' in log


def test_where_the_reduction_fails_the_whole_is_verified(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, minimise, "reduce_case")
    with Looking(tmp_path) as looking:
        finding = looking.look_into(found, "f1", first=True)
    assert finding.reproduced
    assert looking.placing.placed == [(targets(WHOLE), 1)]
    assert finding.component is Component.INDUCTOR
    told(looking, tmp_path)


def test_or_what_it_had_come_to(tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    with Looking(tmp_path) as looking:
        fails(monkeypatch, minimise, "reduce_case", before=lambda: looking._journal.note_smaller(SMALL))
        finding = looking.look_into(found, "f1", first=True)
    assert looking.placing.placed == [(targets(SMALL), 3)]
    assert finding.repro is not None
    assert (finding.repro.ops, finding.ops_before, finding.reproduced) == (4, 40, True)
    assert finding.component is Component.INDUCTOR
    assert finding.lines
    assert finding.culprit.op is None, "nothing tells which of four operators it is"
    told(looking, tmp_path)


def test_and_the_whole_again_where_that_is_no_good(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Looking(tmp_path, good=lambda case: len(targets(case)) == 40) as looking:
        fails(monkeypatch, minimise, "reduce_case", before=lambda: looking._journal.note_smaller(SMALL))
        finding = looking.look_into(found, "f1", first=True)
    assert [count for _, count in looking.placing.placed] == [3, 1]
    assert finding.repro is not None
    assert (finding.repro.ops, finding.reproduced) == (40, True)


@pytest.mark.parametrize("minimize", [True, False])
def test_what_is_reproduced_stays_so_where_a_closer_look_fails(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch, minimize: bool
) -> None:
    fails(monkeypatch, afterwards.Afterwards, "learn")
    with Looking(tmp_path, minimize=minimize) as looking:
        finding = looking.look_into(found, "f1", first=True)
    assert finding.reproduced
    assert finding.why_not == ""
    told(looking, tmp_path)


def test_a_judge_that_breaks_after_the_repro_costs_no_repro(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> Finding:
        raise JudgeBroken("no more workers")

    monkeypatch.setattr(afterwards.Afterwards, "learn", breaks)
    with Looking(tmp_path, minimize=False) as looking:
        assert looking.look_into(found, "f1", first=True).reproduced
    assert looking.faults.notes == ()


def test_where_nothing_could_be_found_out_that_is_why(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, investigation_module, "_load_inner")
    with Looking(tmp_path) as looking:
        finding = looking.look_into(found, "f1", first=True)
    assert not finding.reproduced
    assert finding.why_not == looking.faults.notes[0]
    assert finding.case == tmp_path / "cases" / "f1"
    told(looking, tmp_path)


def test_a_script_that_was_verified_before_is_pointed_to(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = tmp_path / "repro.py"
    fails(monkeypatch, investigation_module, "climb_ladder", before=lambda: verified.touch())
    with Looking(tmp_path, minimize=False) as looking:
        finding = looking.look_into(found, "f1", first=True)
    assert finding.why_not.endswith("the repro.py that stands there was verified before")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_whoever_ends_us_ends_us(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def ends(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(minimise, "reduce_case", ends)
    with Looking(tmp_path) as looking, pytest.raises(error):
        looking.look_into(found, "f1", first=True)


def test_where_the_programs_file_cannot_be_made_smaller_it_is_the_script_itself(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    repro = Repro(tmp_path / "repro.py", "", "frame", 1, ("torch",), 0, True, 3, 3)

    def reproduce(finding: Finding, found: Found, means: from_source.Means) -> Finding:
        if means.effort.minimize:
            raise KeyError("ours")
        return replace(finding, repro=repro)

    monkeypatch.setattr(from_source, "reproduce", reproduce)
    with Looking(tmp_path) as looking:
        looking._share_ends = float("inf")
        finding = looking.from_source(Finding("f1", FAILURE), found, first=True)
        assert looking._plan.minimize
    assert finding.repro is repro
    told(looking, tmp_path)


def test_a_judge_for_the_programs_file_that_cannot_be_started_is_why_not(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Judge:
        raise JudgeBroken("it cannot be started")

    with Looking(tmp_path) as looking:
        looking._share_ends = float("inf")
        monkeypatch.setattr(looking, "_judge_for", broken)
        assert looking.from_source(Finding("f1", FAILURE), found, first=True).why_not == "it cannot be started"
    assert looking.faults.notes == ()
