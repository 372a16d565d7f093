"""A command of the user's as the Judge: exit statuses as git bisect reads them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from judge_helpers import processes_with

from torchsleuth.errors import BadUsage
from torchsleuth.judge import by_command, limits
from torchsleuth.judge.by_command import CommandJudge, failure_of
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial


def judged(command: str, folder: Path, source: str = "x = 1\n", deadline: float = 60.0) -> Outcome:
    return CommandJudge(command).judge(Trial(source, folder, deadline=deadline))


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(0, Verdict.PASSED), (1, Verdict.FAILED), (124, Verdict.FAILED), (125, Verdict.INVALID)],
)
def test_statuses(tmp_path: Path, status: int, verdict: Verdict) -> None:
    outcome = judged(f"exit {status}; true", tmp_path)
    assert outcome.verdict is verdict
    assert (outcome.failure == failure_of(f"exit {status}; true")) is (verdict is Verdict.FAILED)


@pytest.mark.parametrize("command", ["grep -q relu", "! grep -q sin {} && grep -q relu {}"])
def test_the_path_is_appended_or_stands_where_the_braces_are(tmp_path: Path, command: str) -> None:
    place = tmp_path / "a folder with 'quotes'"
    place.mkdir()
    assert judged(command, place, "torch.relu(x)").verdict is Verdict.PASSED
    assert judged(command, place, "torch.cos(x)").verdict is Verdict.FAILED


@pytest.mark.parametrize(("jobs", "trials", "divided"), [(2, 3, 2), (2, 1, 1)])
def test_checks_that_run_at_once_share_the_memory_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, trials: int, divided: int
) -> None:
    launched: list[Launch] = []

    def guarded(launch: Launch) -> Guarded:
        launched.append(launch)
        return Guarded(launch)

    monkeypatch.setattr(by_command, "Guarded", guarded)
    monkeypatch.setattr(limits, "available_memory", lambda: 10 << 30)
    folders = [tmp_path / str(number) for number in range(trials)]
    for folder in folders:
        folder.mkdir()
    CommandJudge("true", jobs).judge_all([Trial("x = 1\n", folder) for folder in folders])
    assert [launch.limits and launch.limits.memory for launch in launched] == [(8 << 30) // divided] * trials


def test_it_runs_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check.sh").write_text("exit 3")
    (tmp_path / "trial").mkdir()
    assert judged("sh check.sh", tmp_path / "trial").verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-command-here", ["status 127", "does not find", "no-such-command-here"]),
        ("exit 200; true", ["status 200", "1 to 124"]),
        ("kill -9 $$; true", ["status -9"]),
        ("echo so it is said; exit 126; true", ["status 126", "so it is said"]),
    ],
)
def test_any_other_status_is_a_fault_of_the_command(tmp_path: Path, command: str, words: list[str]) -> None:
    with pytest.raises(BadUsage) as caught:
        judged(command, tmp_path)
    assert all(word in str(caught.value) for word in words), caught.value


def test_no_command_is_no_check() -> None:
    with pytest.raises(BadUsage, match="--check needs a command"):
        CommandJudge("  ")


def test_a_check_that_does_not_end_says_nothing(tmp_path: Path) -> None:
    outcome = judged("sleep 76543; true", tmp_path, deadline=0.5)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "did not end in time" in outcome.reason
    assert processes_with("76543") == []


def test_what_is_cancelled_was_not_judged(tmp_path: Path) -> None:
    judge = CommandJudge("sleep 76544; true")
    threading.Timer(0.5, judge.cancel).start()
    assert judge.judge(Trial("", tmp_path)).verdict is Verdict.UNKNOWN
    assert processes_with("76544") == []
