"""The program is waited for to its end, whatever becomes of what looks at it meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from torchsleuth.watch import launcher
from torchsleuth.watch.session import Options

BRIEF = [sys.executable, "-c", "import time; time.sleep(1.5); raise SystemExit(7)"]


def test_the_program_is_waited_for_where_looking_at_it_fails(tmp_path: Path) -> None:
    asked: list[float] = []

    def tick() -> bool:
        asked.append(time.monotonic())
        raise KeyError("ours")

    began = time.monotonic()
    ended = launcher.run(BRIEF, tmp_path, Options(), tick=tick)
    assert (ended.exit_code, ended.stopped) == (7, False)
    assert time.monotonic() - began >= 1.5
    assert len(asked) == 1, "what has failed is not asked again"
    log = (tmp_path / "trouble.log").read_text()
    assert "while the program ran" in log
    assert "KeyError: 'ours'" in log


def test_a_full_disk_does_not_keep_it_from_waiting(tmp_path: Path) -> None:
    def tick() -> bool:
        raise OSError("no space left")

    (tmp_path / "trouble.log").mkdir()  # cannot be written
    assert launcher.run(BRIEF, tmp_path, Options(), tick=tick).exit_code == 7


def test_what_is_seen_to_hang_is_ended_all_the_same(tmp_path: Path) -> None:
    ended = launcher.run([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, Options(), tick=lambda: True)
    assert ended.stopped
    assert ended.exit_code == -signal.SIGTERM, "and it is known how"


def test_a_process_of_another_user_does_not_keep_the_others_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sudo's below a program: it may be neither asked nor killed."""
    source = """
    import signal, subprocess, sys, time
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(99)"
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE).stdout.readline()
    print(1, flush=True)
    time.sleep(600)
    """
    root = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE)
    assert root.stdout is not None
    root.stdout.readline()
    theirs, ours = psutil.Process(root.pid).children()
    wanted = {theirs.pid}

    send = psutil.Process.send_signal

    def refused(process: psutil.Process, number: int) -> None:
        if process.pid in wanted:
            raise psutil.AccessDenied(process.pid)
        send(process, number)

    monkeypatch.setattr(psutil.Process, "send_signal", refused)
    monkeypatch.setattr(launcher, "_GRACE", 0.3)
    try:
        launcher.end_tree(root)
        assert root.wait(10) < 0
        psutil.wait_procs([ours], timeout=10)
        assert not ours.is_running()
        assert theirs.is_running()
    finally:
        for one in (theirs, ours):
            if one.is_running():
                one.kill()


def test_a_program_whose_steps_nobody_reads_any_more_goes_on(tmp_path: Path) -> None:
    """`torchsleuth run --log steps python train.py 2>&1 | head`."""
    source = f"""
    import sys
    from pathlib import Path
    from torchsleuth.watch import launcher
    from torchsleuth.watch.session import Options
    from torchsleuth.write.progress import Plain

    session = Path({str(tmp_path)!r})
    asked = []

    def tick():
        say("a step")
        asked.append(1)
        return False

    say = Plain()
    ended = launcher.run({BRIEF!r}, session, Options(), tick=tick)
    (session / "told").write_text(f"{{ended.exit_code}} {{len(asked) > 2}}")
    """
    read, write = os.pipe()
    tool = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stderr=write)
    os.close(write)
    os.close(read)
    tool.wait(60)
    assert (tmp_path / "told").read_text() == "7 True"
    assert not (tmp_path / "trouble.log").exists()
