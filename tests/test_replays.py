"""Recorded runs, replayed: the same questions are asked, and the same result document comes of the answers.

A question that is not on record fails the test and is shown.  A changed result is shown as a diff; where it is wanted,
`python tools/record_replays.py --golden NAME` accepts it, and where other candidates are judged on purpose,
`python tools/record_replays.py NAME` records the run again.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replaying import golden, record
from replaying.places import Places
from replaying.replayer import NotOnRecord, ReplayEngines
from replaying.scenarios import SCENARIOS, Scenario, run

RECORDED = [one for one in SCENARIOS if (one.folder / record.NAME).exists()]


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("a replay starts no process")


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "fork", refuse)

    def replayed(scenario: Scenario, answers: list[record.Answer] | None = None) -> dict[str, str]:
        root = tmp_path.resolve()
        places = Places.replayed_in(root)
        engines = ReplayEngines(answers or record.read(scenario.folder / record.NAME), places)
        return run(scenario, engines, root, places, [])

    return replayed


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda one: one.name)
def test_a_replay_gives_the_recorded_result(scenario: Scenario, replay: Any) -> None:
    name = scenario.name
    try:
        difference = golden.difference(golden.read(scenario.folder), replay(scenario))
        problem = f"{difference}\n\nWanted? python tools/record_replays.py --golden {name}" if difference else ""
    except NotOnRecord as error:
        problem = f"{error}\n\nJudged on purpose? make record NAMES={name}"
    if problem:
        pytest.fail(problem, pytrace=False)


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda one: one.name)
def test_a_record_is_small_and_holds_no_path_of_a_machine(scenario: Scenario) -> None:
    assert record.faults(scenario.folder / record.NAME) == []


def test_every_run_is_recorded() -> None:
    assert {one.name for one in RECORDED} == {one.name for one in SCENARIOS}
    assert {one.name for one in record_folders()} == {one.name for one in SCENARIOS}


def record_folders() -> list[Path]:
    return [one for one in SCENARIOS[0].folder.parent.iterdir() if one.is_dir()]


def test_a_candidate_that_is_not_on_record_fails_and_is_shown(replay: Any) -> None:
    answers = record.read(SCENARIOS[0].folder / record.NAME)
    gone = next(one for one in answers if one.asked.startswith("judge on cpu"))
    with pytest.raises(NotOnRecord, match=r"not on record, asked: judge on cpu[^\n]*:\n\n(.|\n)*import torch"):
        replay(SCENARIOS[0], [one for one in answers if one.key != gone.key])


def test_another_answer_gives_another_result(replay: Any) -> None:
    """A fresh process that passes: the repro is not verified, and the difference says so."""
    from dataclasses import replace

    answers = [
        replace(one, said={"outcome": {"verdict": "passed"}, "counted": 0}) if one.asked.startswith("a fresh") else one
        for one in record.read(SCENARIOS[0].folder / record.NAME)
    ]
    try:
        found = replay(SCENARIOS[0], answers)
    except NotOnRecord:
        return  # it looks further, for what fails
    assert '-  "verdict": "failure"' in golden.difference(golden.read(SCENARIOS[0].folder), found)
