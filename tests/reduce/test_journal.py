"""The journal: whatever moment the tool is killed at, the reduction goes on from there and comes to the same end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import journaled_reduction
import pytest
from journaled_reduction import FAILURE
from toys import chain, targets

from torchsleuth.case.failure import Kind, Phase, of_hang
from torchsleuth.case.model import Code, Surroundings
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.generated import Noted
from torchsleuth.judge.memory import Question
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.reduce.journal import NAME, Journal

HERE = Path(__file__).parent
PASSED = Outcome(Verdict.PASSED, seconds=1.0)


def asks(source: str, *, deadline: float = 30.0, attempt: int = 0) -> Question:
    return Question(source, {}, Phase.RUN_FORWARD, deadline, attempt=attempt)


def begin(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    environment = with_torchsleuth({**os.environ, "PYTHONPATH": str(HERE)})
    return subprocess.Popen(
        [sys.executable, str(HERE / "journaled_reduction.py"), str(folder), str(seconds)], env=environment
    )


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_it_judges_nothing_twice_and_ends_alike(tmp_path: Path, seed: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    wanted = journaled_reduction.reduce(whole, 0.0)
    once = len((whole / "asked.txt").read_text().splitlines())
    assert once >= 10

    moments = random.Random(seed)
    kills = 0
    while not (cut / "result.txt").exists():
        tool = begin(cut, 0.02)
        if kills < 6:
            reached = len(_asked(cut)) + moments.randrange(1, 6)
            while tool.poll() is None and len(_asked(cut)) < reached:
                time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.02))
            tool.kill()
            kills += 1
        assert tool.wait(60) in (0, -9)
    assert (cut / "result.txt").read_text() == wanted
    again = [source for source, times in Counter(_asked(cut)).items() if times > 1]
    assert len(again) <= 2 * kills, "only what was in flight, two at a time, is asked again"
    assert kills >= 2
    assert len(_asked(cut)) <= once + 2 * kills


def _asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text().splitlines() if (folder / "asked.txt").exists() else []


def test_a_line_that_was_being_written_is_lost_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / NAME
    journal = Journal(place)
    journal.keep(asks("a"), PASSED)
    journal.keep(asks("b"), Outcome(Verdict.FAILED, FAILURE, "why", 2.0, 1.0))
    whole = place.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(lines[0]), len(whole)):
        place.write_bytes(whole[:length])
        torn = Journal(place)
        assert torn.recall(asks("a")) == PASSED
        assert torn.recall(asks("b")) is None or length == len(whole) - 1
        torn.keep(asks("c"), PASSED)
        assert Journal(place).recall(asks("c")) == PASSED
    place.write_bytes(whole)
    assert Journal(place).recall(asks("b")) == Outcome(Verdict.FAILED, FAILURE, "why", 2.0, 1.0)


def test_what_is_no_journal_is_nothing_known(tmp_path: Path) -> None:
    place = tmp_path / NAME
    place.write_bytes(b'\xff\xfe\x00[]\n{"key": 3}\n{"smaller": 1}\n{"key": "k", "setting": "", "verdict": "nice"}\n\n')
    journal = Journal(place)
    assert journal.begun_with == 0
    assert journal.smallest(ours=True) is None


def test_an_answer_counts_in_its_own_setting_only(tmp_path: Path) -> None:
    Journal(tmp_path / NAME, setting="torch 1").keep(asks("a"), PASSED)
    assert Journal(tmp_path / NAME, setting="torch 1").recall(asks("a")) == PASSED
    assert Journal(tmp_path / NAME, setting="torch 2").recall(asks("a")) is None


def test_what_was_cut_short_is_asked_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / NAME)
    journal.keep(asks("a"), Outcome(Verdict.UNKNOWN, reason="cancelled"))
    assert journal.recall(asks("a")) is None
    assert not (tmp_path / NAME).exists()


def test_a_hang_is_known_for_shorter_deadlines_and_an_end_for_longer_ones() -> None:
    journal = Journal()
    journal.keep(asks("hangs", deadline=60), Outcome(Verdict.FAILED, of_hang(Phase.RUN_FORWARD), seconds=60))
    assert journal.recall(asks("hangs", deadline=30)) is not None
    assert journal.recall(asks("hangs", deadline=90)) is None, "it may end after 70 seconds"
    journal.keep(asks("slow", deadline=60), Outcome(Verdict.PASSED, seconds=40))
    assert journal.recall(asks("slow", deadline=90)) is not None
    assert journal.recall(asks("slow", deadline=30)) is None, "within 30 seconds it would be called a hang"


def test_hints_and_the_account_of_wrong_numbers_are_there_again(tmp_path: Path) -> None:
    wrong = replace(FAILURE, kind=Kind.ACCURACY, text="x" * 9000)
    answers = {
        "wrong": Outcome(Verdict.FAILED, wrong),
        "kernel": Outcome(Verdict.FAILED, FAILURE, noted=Noted(("relu", "sin_1"), "sin_relu")),
    }
    for source, outcome in answers.items():
        Journal(tmp_path / NAME).keep(asks(source), outcome)
    for source, outcome in answers.items():
        assert Journal(tmp_path / NAME).recall(asks(source)) == outcome, "a replay takes the same turns"


def test_an_attempt_is_a_question_of_its_own() -> None:
    journal = Journal()
    journal.keep(asks("flaky"), PASSED)
    assert journal.recall(asks("flaky", attempt=1)) is None


def test_the_smallest_case_is_there_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / NAME)
    for length in (9, 4, 2):
        journal.note_smaller(chain(length))
    again = Journal(tmp_path / NAME)
    found = again.smallest(ours=False)
    assert found is not None
    assert targets(found) == ["sin", "sin"]
    size = (tmp_path / NAME).stat().st_size
    again.note_smaller(chain(2))
    assert (tmp_path / NAME).stat().st_size == size, "a replay writes nothing again"


def test_a_smallest_case_that_names_no_operator_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / NAME).note_smaller(chain(2, {0: "load"}))
    assert Journal(tmp_path / NAME).smallest(ours=False) is None


def test_a_folder_that_takes_no_more_is_said_once_and_survived(tmp_path: Path) -> None:
    said: list[str] = []
    journal = Journal(tmp_path / "gone" / NAME, tmp_path / NAME, say=said.append)
    journal.keep(asks("a"), PASSED)
    journal.keep(asks("b"), PASSED)
    assert [line for line in said if "cannot be written" in line] == said
    assert len(said) == 1
    assert Journal(tmp_path / NAME).begun_with == 2, "the other place goes on"


def test_what_another_judge_found_out_is_taken_over(tmp_path: Path) -> None:
    early = Journal()
    early.keep(asks("a"), PASSED)
    journal = Journal(tmp_path / NAME, setting="here")
    journal.learn(early)
    assert Journal(tmp_path / NAME, setting="here").recall(asks("a")) == PASSED


def test_code_travels_in_the_journal_as_in_a_case(tmp_path: Path) -> None:
    code = Code("backend", "mine", "def mine(gm, inputs): ...")
    Journal(tmp_path / NAME).note_smaller(replace(chain(1), surroundings=Surroundings(code=(code,))))
    found = Journal(tmp_path / NAME).smallest(ours=False)
    assert found is not None
    assert found.surroundings.code == (code,), "so whoever uses it must compare with what was consented to"
