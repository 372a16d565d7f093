"""Both Judges from outside: cancelled, closed, broken, and bereft of their client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from judge_helpers import alive, eventually, processes_with

from torchsleuth.errors import JudgeBroken
from torchsleuth.judge import ForkedJudge, SpawnedJudge, Trial, Verdict
from torchsleuth.judge.conduct import Conductor
from torchsleuth.judge.descendants import descendants

pytestmark = pytest.mark.slow

SLEEPER = """
import os, pathlib, subprocess, time, torch
subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
pathlib.Path("began").touch()
time.sleep(600)
"""


def trial(source: str, folder: Path) -> Trial:
    folder.mkdir(exist_ok=True)
    return Trial(source, folder, deadline=120)


def test_cancel_kills_everything_in_flight_within_a_second(judge: Conductor, tmp_path: Path) -> None:
    trials = [trial(SLEEPER.format(mark=87651 + n), tmp_path / str(n)) for n in range(3)]
    outcomes: list[object] = []
    asking = threading.Thread(target=lambda: outcomes.extend(judge.judge_all(trials)))
    asking.start()
    assert eventually(lambda: (tmp_path / "0/began").exists() and (tmp_path / "1/began").exists(), 90)
    assert len(processes_with("sleep 8765")) == 2
    began = time.monotonic()
    judge.cancel()
    asking.join(10)
    assert time.monotonic() - began < 1.0
    assert [(o.verdict, o.reason) for o in outcomes] == [(Verdict.UNKNOWN, "cancelled")] * 3  # type: ignore[attr-defined]
    assert processes_with("sleep 8765") == []
    assert not (tmp_path / "2/began").exists()


def test_it_can_be_used_again_after_a_cancel(judge: Conductor, tmp_path: Path) -> None:
    judge.cancel()
    assert judge.judge(trial("import torch\n", tmp_path)).verdict is Verdict.PASSED


def test_a_judgement_that_never_ran_compiled_code_is_not_counted(judge: Conductor, tmp_path: Path) -> None:
    before = judge.judged
    judge.judge(trial("import torch\nraise ValueError\n", tmp_path))
    assert judge.judged == before
    judge.judge(trial("import torch\n", tmp_path))
    assert judge.judged == before + 1


@pytest.mark.parametrize("provider", [ForkedJudge, SpawnedJudge])
def test_close_leaves_no_process(provider: type[ForkedJudge], tmp_path: Path, environment: dict[str, str]) -> None:
    before = {process.pid for process in descendants(os.getpid())}
    with provider(sys.executable, environment, jobs=1, scratch=tmp_path / "scratch") as judge:
        assert judge.judge(trial("import torch\n", tmp_path / "t")).verdict is Verdict.PASSED
        assert {process.pid for process in descendants(os.getpid())} - before
    assert eventually(lambda: not {process.pid for process in descendants(os.getpid())} - before)


@pytest.mark.parametrize("provider", [ForkedJudge, SpawnedJudge])
def test_close_before_it_is_warm_is_quick(
    provider: type[ForkedJudge], tmp_path: Path, environment: dict[str, str]
) -> None:
    before = {process.pid for process in descendants(os.getpid())}
    began = time.monotonic()
    provider(sys.executable, environment, jobs=1, scratch=tmp_path).close()
    assert time.monotonic() - began < 2
    assert eventually(lambda: not {process.pid for process in descendants(os.getpid())} - before)


@pytest.mark.parametrize(("provider", "tries"), [(ForkedJudge, 1), (SpawnedJudge, 3)])
def test_an_interpreter_without_torch_is_a_broken_judge(
    provider: type[ForkedJudge], tries: int, tmp_path: Path, environment: dict[str, str]
) -> None:
    """-S is not at hand: a module named torch that raises stands first on the path."""
    (tmp_path / "torch.py").write_text("raise SystemError('no torch here')\n")
    with provider(sys.executable, environment, [str(tmp_path)], jobs=1, scratch=tmp_path / "scratch") as judge:
        for _ in range(tries - 1):
            outcome = judge.judge(trial("import torch\n", tmp_path / "t"))
            assert outcome.verdict is Verdict.UNKNOWN
        with pytest.raises(JudgeBroken, match="no torch here"):
            judge.judge(trial("import torch\n", tmp_path / "t"))
        assert judge.judged == 0


def test_a_judge_that_is_cancelled_while_it_starts_is_not_broken(tmp_path: Path, environment: dict[str, str]) -> None:
    """The best that was verified would be forgotten with what a broken judge raises."""
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(600)\n")
    with ForkedJudge(sys.executable, environment, [str(tmp_path)], jobs=1, scratch=tmp_path / "scratch") as judge:
        for _ in range(2):
            canceller = threading.Timer(0.5, judge.cancel)
            canceller.start()
            outcome = judge.judge(trial("import torch\n", tmp_path / "t"))
            canceller.join()
            assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "cancelled")


def test_modules_of_the_program_can_be_imported(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "users_module.py").write_text("ANSWER = 42\n")
    with ForkedJudge(sys.executable, environment, [str(tmp_path)], scratch=tmp_path / "scratch") as judge:
        outcome = judge.judge(trial("import torch, users_module\nassert users_module.ANSWER == 42\n", tmp_path / "t"))
    assert outcome.verdict is Verdict.PASSED, outcome


def test_a_zygote_that_was_killed_is_replaced(tmp_path: Path, environment: dict[str, str]) -> None:
    with ForkedJudge(sys.executable, environment, scratch=tmp_path / "scratch") as judge:
        asking: list[object] = []
        thread = threading.Thread(
            target=lambda: asking.append(judge.judge(trial(SLEEPER.format(mark=87661), tmp_path / "a")))
        )
        thread.start()
        assert eventually((tmp_path / "a/began").exists, 90)
        (zygote,) = [pid for pid in processes_with("judge.zygote") if _parent(pid) == os.getpid()]
        below = [process.pid for process in descendants(zygote)]
        assert len(below) >= 3  # warden, trial, sleep
        os.kill(zygote, signal.SIGKILL)
        thread.join(10)
        assert [o.verdict for o in asking] == [Verdict.UNKNOWN]  # type: ignore[attr-defined]
        assert eventually(lambda: not any(alive(pid) for pid in below))
        assert judge.judge(trial("import torch\n", tmp_path / "b")).verdict is Verdict.PASSED


@pytest.mark.parametrize("provider", ["ForkedJudge", "SpawnedJudge"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_when_the_client_dies_nothing_is_left(
    provider: str, number: signal.Signals, tmp_path: Path, python_with_sleuth: dict[str, str]
) -> None:
    (tmp_path / "trial").mkdir()
    client = f"""
    import os, pathlib, signal, sys
    from torchsleuth.judge import {provider}, Trial, judge_environment
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs this in the background ignores it
    judge = {provider}(sys.executable, judge_environment(os.environ), jobs=1, scratch=pathlib.Path("scratch"))
    with judge:
        judge.judge(Trial({SLEEPER.format(mark=87671)!r}, pathlib.Path("trial"), deadline=300))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(client)],
        cwd=tmp_path,
        env=python_with_sleuth,
        stderr=subprocess.DEVNULL,
    )
    assert eventually((tmp_path / "trial/began").exists, 90)
    below = [found.pid for found in descendants(process.pid)]
    assert len(below) >= 3
    process.send_signal(number)
    process.wait(10)
    assert eventually(lambda: not any(alive(pid) for pid in below), 5)
    assert processes_with("sleep 87671") == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
