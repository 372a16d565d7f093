"""`minimize --check`: nothing that the command said is believed later, and the smallest so far is never lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reduce.toys import chain
from torchsleuth.case import folder
from torchsleuth.commands import checked
from torchsleuth.commands.run import Settings
from torchsleuth.judge.by_command import CommandJudge
from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.trial import Trial
from torchsleuth.write.result import Result, RunVerdict


class Killed(BaseException):
    """As kill -9 ends the tool."""


class Mortality:
    """Counts what the command is asked, and kills the tool after so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.left = 10_000
        judge = CommandJudge._judge

        def counted(own: CommandJudge, trial: Trial, era: int, at_once: int) -> Outcome:
            if self.left <= 0:
                raise Killed
            self.left -= 1
            self.asked.append(trial.source)
            return judge(own, trial, era, at_once)

        monkeypatch.setattr(CommandJudge, "_judge", counted)


def minimised(what: Path, out: Path, check: str) -> Result:
    return checked.minimise(what, check, Settings(out=out, jobs=1), lambda _: None, trust=True)[0]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder.save(chain(24, {5: "relu", 17: "tanh"}), tmp_path / "case")
    return tmp_path / "case"


CHECK = "grep -q torch.relu {} && grep -q torch.tanh {} && exit 1 || exit 0"


def test_the_smallest_so_far_stands_there_after_a_kill_and_is_gone_on_from(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortality = Mortality(monkeypatch)
    mortality.left = 8
    with pytest.raises(Killed):
        minimised(case, tmp_path / "out", CHECK)
    text = (tmp_path / "out" / "repro.py").read_text()
    assert "torch.relu" in text
    before = text.count("torch.sin")
    assert before < 22, "what was there on the way is smaller than the whole"
    assert any((tmp_path / "out" / "cases" / "f1" / "checkpoints").iterdir())

    mortality.left, mortality.asked = 10_000, []
    result = minimised(case, tmp_path / "out", CHECK)
    assert result.verdict is RunVerdict.FAILURE
    assert result.findings[0].ops_before == 24
    assert mortality.asked[0].count("torch.sin") == before, "the smallest is judged again, first"
    assert "torch.sin" not in (tmp_path / "out" / "repro.py").read_text()
    assert not (tmp_path / "out" / "logs" / "unfinished.json").exists()


def test_what_the_command_said_is_not_remembered(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the command is the same; the script that it runs is another by now."""
    script = tmp_path / "check.sh"
    script.write_text("grep -q torch.relu $1 && exit 1 || exit 0\n")
    first = minimised(case, tmp_path / "first", f"sh {script}")
    assert first.verdict is RunVerdict.FAILURE
    script.write_text("grep -q torch.tanh $1 && exit 1 || exit 0\n")
    mortality = Mortality(monkeypatch)
    second = minimised(case, tmp_path / "second", f"sh {script}")
    assert mortality.asked
    repro = second.findings[0].repro
    assert repro is not None
    assert "torch.tanh" in repro.source
    script.write_text("exit 0\n")
    third = minimised(case, tmp_path / "third", f"sh {script}")
    assert third.verdict is RunVerdict.NOT_REPRODUCED
    assert third.findings[0].repro is None


def test_the_smallest_for_a_command_is_not_the_smallest_for_another(case: Path, tmp_path: Path) -> None:
    minimised(case, tmp_path / "first", "grep -q torch.relu {} && exit 1 || exit 0")
    rows = [json.loads(line) for line in (case / "journal.jsonl").read_text().splitlines()]
    assert any(row.get("looks_for", "").startswith("check grep -q torch.relu") for row in rows)
    other = minimised(case, tmp_path / "second", "grep -q torch.tanh {} && exit 1 || exit 0")
    repro = other.findings[0].repro
    assert repro is not None
    assert ("torch.relu" in repro.source, "torch.tanh" in repro.source) == (False, True)
