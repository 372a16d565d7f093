"""A reduction of source that is killed or interrupted, or of a failure that comes and goes; judges only read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from source_by_hand import FAILURE, ReadingJudge, always, found, means_of
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.investigate import checkpoints, from_source
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.verify import Verification
from torchsleuth.reduce.chance import Chance
from torchsleuth.write.findings import Finding, Repro

FINDING = Finding("f1", FAILURE, why_not="no graph")
PROGRAM = (
    "import torch\n"
    + "".join(f"{'needed' if n in (3, 9) else 'unused'}_{n} = {n}\n" for n in range(12))
    + "bug = torch.compile\nlast = [bug, 1]\n"
)


class Killed(BaseException):
    """As kill -9 ends the tool: nothing of ours runs any more."""


class Needing(ReadingJudge):
    """Three statements that stand apart are needed."""

    def fails(self, text: str) -> bool:
        return all(word in text for word in ("bug", "needed_3 =", "needed_9 ="))


class Mortal(Needing):
    """Is killed after so many judgements, some of which nobody was told of."""

    def __init__(self, judgements: int) -> None:
        super().__init__()
        self._left = judgements

    def outcome(self, text: str) -> Outcome:
        if self._left == 0:
            raise Killed
        self._left -= 1
        return super().outcome(text)


def repro_of(finding: Finding) -> Repro:
    assert finding.repro is not None
    return finding.repro


def test_killed_anywhere_it_judges_nothing_twice_and_ends_alike(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    judge = Needing()
    wanted = from_source.reproduce(FINDING, found(whole, text=PROGRAM), means_of(whole, judge))
    assert judge.judged >= 10
    assert [text for text, times in Counter(judge.asked).items() if times > 1] == []

    for judgements in range(1, judge.judged):
        cut = tmp_path / f"cut-{judgements}"
        cut.mkdir()
        mortal, rest = Mortal(judgements), Needing()
        with pytest.raises(Killed):
            from_source.reproduce(FINDING, found(cut, text=PROGRAM), means_of(cut, mortal))
        ended = from_source.reproduce(FINDING, found(cut, text=PROGRAM), means_of(cut, rest))
        known = mortal.asked[:judgements]
        assert not set(known) & set(rest.asked), "what was judged is not judged again"
        assert len(known) + len(rest.asked) == judge.judged
        assert replace(repro_of(ended), path=Path(), claims=()) == replace(repro_of(wanted), path=Path(), claims=())
        assert (ended.judged, ended.ops_before) == (wanted.judged, wanted.ops_before)


def test_what_depends_on_other_files_is_judged_again_from_the_smallest(tmp_path: Path) -> None:
    """The module may have changed since, so no answer about a script that imports it is taken from the journal."""
    (tmp_path / "parts.py").write_text("def other():\n    if 1: return 2\nimport nowhere as other\n")
    text = PROGRAM + "from parts import other\n"

    class NeedsTheImport(Mortal):
        def fails(self, text: str) -> bool:
            return super().fails(text) and "from parts import" in text

    mortal, rest = NeedsTheImport(12), NeedsTheImport(1000)
    with pytest.raises(Killed):
        from_source.reproduce(FINDING, found(tmp_path, text=text), means_of(tmp_path, mortal))
    said: list[str] = []
    means = means_of(tmp_path, rest, say=said.append)
    ended = from_source.reproduce(FINDING, found(tmp_path, text=text), means)
    assert any(one.startswith("going on from ") for one in said)
    again = [text for text in rest.asked if text in mortal.asked]
    assert all("from parts import" in text for text in again)
    assert again, "the whole, and the smallest"
    assert "unused" not in repro_of(ended).source
    assert len(rest.asked) < len(mortal.asked) + 12


def test_a_smallest_script_that_fails_no_longer_is_not_taken_up(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("import nowhere as other\ndef sum(): ...\n")
    text = PROGRAM + "from parts import other\n"

    class AnotherDay(Mortal):
        def fails(self, text: str) -> bool:
            return super().fails(text) and "unused_5" in text and "from parts" in text

    class OneDay(Mortal):
        def fails(self, text: str) -> bool:
            return super().fails(text) and "from parts" in text

    with pytest.raises(Killed):
        from_source.reproduce(FINDING, found(tmp_path, text=text), means_of(tmp_path, OneDay(14)))
    ended = from_source.reproduce(FINDING, found(tmp_path, text=text), means_of(tmp_path, AnotherDay(1000)))
    assert "unused_5" in repro_of(ended).source


def test_a_smaller_script_stands_in_checkpoints_and_is_put_in_place_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_WORTH", 0.0)
    judge = Needing(stop_after=20)
    ended = from_source.reproduce(FINDING, found(tmp_path, text=PROGRAM), means_of(tmp_path, judge))
    assert repro_of(ended).source.count("unused") < 5, "verified on the way, and kept at Ctrl-C"
    assert (tmp_path / "out" / "repro.py").read_text() == repro_of(ended).source
    written = sorted(p.name for p in (tmp_path / "home" / "checkpoints").iterdir())
    assert written
    assert all("bug" in (tmp_path / "home" / "checkpoints" / name).read_text() for name in written)


def test_ctrl_c_keeps_what_was_verified_and_the_checkpoint_is_smaller(tmp_path: Path) -> None:
    ended = from_source.reproduce(FINDING, found(tmp_path, text=PROGRAM), means_of(tmp_path, Needing(stop_after=20)))
    assert all(f"_{n} = " in repro_of(ended).source for n in range(12)), "nothing smaller was due"
    smallest = min((tmp_path / "home" / "checkpoints").iterdir(), key=lambda p: int(p.name.split("_")[1]))
    assert smallest.read_text().count("unused") < 5


class Flaky(ReadingJudge):
    """Of what has the bug, every third judgement fails; the first does."""

    def outcome(self, text: str) -> Outcome:
        fails = "bug" in text and self.judged % 3 == 1
        return Outcome(Verdict.FAILED, FAILURE) if fails else Outcome(Verdict.PASSED)


def now_and_then(script: Path, failure: Failure, runs: int, path: Sequence[str], chance: Chance) -> Verification:
    """Fresh processes see it in some runs; that is enough for what is known to come and go."""
    outcomes = (Outcome(Verdict.FAILED, failure), Outcome(Verdict.PASSED))
    reason = "" if chance.flaky else "it ran to its end without failing"
    return Verification(runs, max(1, runs - 1), Match.PASSED, outcomes, reason, chance.flaky)


def test_a_failure_that_comes_and_goes_is_judged_often_enough(tmp_path: Path) -> None:
    ended = from_source.reproduce(FINDING, found(tmp_path, text=PROGRAM), means_of(tmp_path, Flaky(), now_and_then))
    assert ended.chance.flaky
    assert "unused" not in repro_of(ended).source, "with one judgement each, two of three smaller ones are lost"
    assert ended.chance.sentence.split(":")[0] in repro_of(ended).source


WRONG = Failure(Kind.ACCURACY, Phase.RUN_FORWARD, Fingerprint("AssertionError", "not close"))
DRAWING = """import torch
unused = 1
torch.manual_seed(0)
x = torch.randn(4)
bug(x)
"""


class Lucky(ReadingJudge):
    """A bug that shows with some random numbers only.  All trials start from one state, in which it shows."""

    seeds = frozenset({0, 1, 2, 5})

    def outcome(self, text: str) -> Outcome:
        return Outcome(Verdict.FAILED, WRONG) if self.fails(text) else Outcome(Verdict.PASSED)

    def fails(self, text: str) -> bool:
        seeds = [int(number) for number in re.findall(r"manual_seed\((\d+)\)", text)]
        runs = "bug(" in text and "randn" in text and "manual_seed()" not in text
        return runs and (not seeds or seeds[-1] in self.seeds)


def test_a_seed_that_is_needed_stays(tmp_path: Path) -> None:
    means = means_of(tmp_path, Lucky())
    finding = replace(FINDING, failure=WRONG)
    ended = from_source.reproduce(finding, found(tmp_path, text=DRAWING, failure=WRONG), means)
    assert "torch.manual_seed(0)" in repro_of(ended).source
    assert "unused" not in repro_of(ended).source
    assert repro_of(ended).runs == 3


def test_a_seed_that_is_not_needed_goes_and_more_runs_are_made(tmp_path: Path) -> None:
    class Always(Lucky):
        seeds = frozenset(range(100))

    finding = replace(FINDING, failure=WRONG)
    means = means_of(tmp_path, Always())
    ended = from_source.reproduce(finding, found(tmp_path, text=DRAWING, failure=WRONG), means)
    assert "manual_seed" not in repro_of(ended).source
    assert repro_of(ended).runs == (10 if "randn" in repro_of(ended).source else 3)


def test_a_program_without_a_seed_is_given_one_that_fails(tmp_path: Path) -> None:
    class Second(Lucky):
        seeds = frozenset({1})

    text = DRAWING.replace("torch.manual_seed(0)\n", "")
    finding = replace(FINDING, failure=WRONG)
    ended = from_source.reproduce(finding, found(tmp_path, text=text, failure=WRONG), means_of(tmp_path, Second()))
    assert "torch.manual_seed(1)" in repro_of(ended).source


def test_a_script_that_fresh_processes_pass_is_followed_by_more_runs(tmp_path: Path) -> None:
    """Three runs in a row are easily had of what fails in nine of ten."""
    runs: list[int] = []

    def verify(script: Path, failure: Failure, count: int, path: Sequence[str], chance: Chance) -> Verification:
        runs.append(count)
        if len(runs) == 2:
            return Verification(count, 0, Match.PASSED, (Outcome(Verdict.PASSED),), "it ran to its end without failing")
        return always(script, failure, count, path, chance)

    from_source.reproduce(FINDING, found(tmp_path, text=PROGRAM), means_of(tmp_path, ReadingJudge(), verify))
    assert runs == [1, 3, 10]
