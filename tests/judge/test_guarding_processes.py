"""Deadlines, memory, orphans: toy processes without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from judge_helpers import alive, eventually, processes_with

from torchsleuth.judge import descendants as module
from torchsleuth.judge.descendants import Process, descendants, kill_descendants, resident
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.order import Cause, Ending
from torchsleuth.watch.free_memory import available_memory

GB = 1 << 30


class Run:
    """A toy script under a warden."""

    def __init__(self, folder: Path, source: str, *, deadline: float = 20.0, memory: int | None = 8 * GB) -> None:
        self.folder = folder
        self.ending_path = str(folder / "ending.json")
        self.output = folder / "output.txt"
        self.guarded = Guarded(
            Launch(
                (sys.executable, "-c", textwrap.dedent(source)),
                {**os.environ, "TOY": "yes"},
                str(folder),
                str(self.output),
                Limits(deadline, memory),
                self.ending_path,
            )
        )

    def ending(self) -> Ending:
        assert self.guarded.wait(30)
        ending = Ending.read(self.ending_path)
        assert ending is not None, self.output.read_text()
        return ending


def test_an_exit_status_is_told(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import sys; sys.exit(7)").ending()
    assert (ending.cause, ending.status) == (Cause.EXITED, 7)


def test_a_signal_is_told_as_a_negative_status(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").ending()
    assert (ending.cause, ending.status) == (Cause.EXITED, -signal.SIGSEGV)


def test_it_is_told_at_once(tmp_path: Path) -> None:
    """Polling alone would find the end of a process up to an interval later."""
    run = Run(tmp_path, "import time; time.sleep(0.33); print(time.time(), flush=True)")
    run.ending()
    assert time.time() - float(run.output.read_text()) < 0.3


def test_output_environment_folder_and_input_are_as_launched(tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['TOY'], os.getcwd(), [*sys.stdin]); print('e', file=sys.stderr)"
    run = Run(tmp_path, script)
    assert run.ending().status == 0
    assert set(run.output.read_text().splitlines()) == {f"yes {tmp_path} []", "e"}


def test_it_has_a_session_of_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path, "import os; print(os.getsid(0) == os.getpid() == os.getpgrp())")
    run.ending()
    assert run.output.read_text() == "True\n"


def test_the_deadline_ends_it(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import time; time.sleep(600)", deadline=0.5).ending()
    assert ending.cause is Cause.DEADLINE
    assert 0.5 <= ending.seconds < 3


def test_a_process_within_its_deadline_is_left_alone(tmp_path: Path) -> None:
    assert Run(tmp_path, "import time; time.sleep(0.5)", deadline=10).ending().cause is Cause.EXITED


def test_the_memory_limit_ends_it(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import time; a = b'x' * (400 << 20); time.sleep(600)", memory=GB // 4).ending()
    assert ending.cause is Cause.MEMORY
    assert ending.peak_memory > GB // 4


def test_the_memory_of_the_whole_family_counts(tmp_path: Path) -> None:
    """Three processes of 150 MB each, in sessions of their own, under a limit that none reaches alone."""
    source = """
    import os, time
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            a = b'x' * (150 << 20)
            time.sleep(600)
    time.sleep(600)
    """
    assert Run(tmp_path, source, memory=380 << 20).ending().cause is Cause.MEMORY


def test_memory_below_the_limit_is_left_alone(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import time; a = b'x' * (100 << 20); time.sleep(0.4)", memory=GB).ending()
    assert ending.cause is Cause.EXITED
    assert ending.peak_memory > 100 << 20


def test_without_a_limit_nobody_measures(tmp_path: Path) -> None:
    ending = Run(tmp_path, "import time; a = b'x' * (100 << 20); time.sleep(0.4)", memory=None).ending()
    assert (ending.cause, ending.peak_memory) == (Cause.EXITED, 0)


def test_a_process_of_another_user_does_not_keep_the_others_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sudo's below a command: it may not be killed, and the rest is."""
    code = "import subprocess, sys; p = [subprocess.Popen(['sleep', '65436']) for _ in range(2)]; sys.stdin.read()"
    root = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert eventually(lambda: len(processes_with("sleep 65436")) == 2)
    theirs, ours = sorted(processes_with("sleep 65436"))
    kill = os.kill

    def refused(pid: int, number: int) -> None:
        if pid == theirs:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr(os, "kill", refused)
    monkeypatch.setattr(
        module, "descendants", lambda _: [Process(pid, root.pid, 0) for pid in (theirs, ours) if alive(pid)]
    )
    try:
        assert kill_descendants(0.3) is False
        assert (alive(theirs), alive(ours)) == (True, False)
    finally:
        kill(theirs, signal.SIGKILL)
        root.communicate()


@pytest.mark.parametrize("end", ["pass", "os._exit(1)", "os.abort()", "time.sleep(600)"])
def test_orphans_are_gone_whatever_the_end(tmp_path: Path, end: str) -> None:
    source = f"""
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "65431"], {{}})
        os._exit(0)
    os.wait()
    {end}
    """
    Run(tmp_path, source, deadline=1.0).ending()
    assert processes_with("sleep 65431") == []


def test_processes_that_keep_forking_are_killed_faster_than_they_fork(tmp_path: Path) -> None:
    """A chain: each process lives 2 ms, in a session of its own, and leaves one child."""
    source = """
    import os, time
    until = time.time() + 20
    while time.time() < until:
        if os.fork():
            time.sleep(0.002)
            os._exit(0)
        os.setsid()
    """
    ending = Run(tmp_path, source).ending()
    assert ending.cause is Cause.EXITED
    assert ending.seconds < 5
    assert not [pid for pid in processes_with("until = time.time() + 20") if alive(pid)]


def test_stopping_kills_it_within_a_second(tmp_path: Path) -> None:
    run = Run(tmp_path, "import subprocess; subprocess.run(['sleep', '65432'])")
    assert eventually(lambda: len(processes_with("sleep 65432")) == 1)
    began = time.monotonic()
    run.guarded.stop()
    assert run.ending().cause is Cause.CANCELLED
    assert time.monotonic() - began < 1
    assert processes_with("sleep 65432") == []
    assert not run.guarded.running


def test_a_warden_that_is_terminated_cleans_up(tmp_path: Path) -> None:
    run = Run(tmp_path, "import subprocess; subprocess.run(['sleep', '65433'], start_new_session=True)")
    assert eventually(lambda: len(processes_with("sleep 65433")) == 1)
    (warden,) = [p.pid for p in descendants(os.getpid()) if "judge.warden" in _command(p.pid)]
    os.kill(warden, signal.SIGTERM)
    assert run.ending().cause is Cause.CANCELLED
    assert processes_with("sleep 65433") == []


def test_a_warden_that_is_killed_takes_its_command_with_it(tmp_path: Path) -> None:
    run = Run(tmp_path, "import pathlib, time; pathlib.Path('began').touch(); time.sleep(65434)")
    assert eventually((tmp_path / "began").exists)
    (warden,) = [p.pid for p in descendants(os.getpid()) if "judge.warden" in _command(p.pid)]
    below = [process.pid for process in descendants(warden)]
    os.kill(warden, signal.SIGKILL)
    assert run.guarded.wait(5)
    assert Ending.read(run.ending_path) is None
    assert eventually(lambda: not any(alive(pid) for pid in below))


def test_when_the_client_is_killed_its_command_dies(tmp_path: Path, python_with_sleuth: dict[str, str]) -> None:
    client = f"""
    import os
    from torchsleuth.judge.guarded import Guarded
    from torchsleuth.judge.launch import Launch, Limits
    Guarded(Launch(("sleep", "65435"), dict(os.environ), {str(tmp_path)!r}, "out", Limits(600.0, 1 << 40), "e")).wait()
    """
    command = [sys.executable, "-c", textwrap.dedent(client)]
    process = subprocess.Popen(command, env=python_with_sleuth, cwd=tmp_path)
    assert eventually(lambda: len(processes_with("sleep 65435")) == 1)
    process.kill()
    process.wait()
    assert eventually(lambda: processes_with("sleep 65435") == [], 2)


def test_a_command_that_does_not_exist_leaves_no_ending_but_says_why(tmp_path: Path) -> None:
    ending = str(tmp_path / "ending.json")
    output = str(tmp_path / "out.txt")
    guarded = Guarded(Launch(("/no/such",), dict(os.environ), str(tmp_path), output, Limits(1.0, GB), ending))
    assert guarded.wait(10)
    assert Ending.read(ending) is None
    assert "FileNotFoundError" in Path(output).read_text()


def test_descendants_are_found_at_every_depth() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(65436)'])"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert eventually(lambda: len(descendants(process.pid)) == 1)
        (child,) = descendants(process.pid)
        assert child.parent == process.pid
        assert {process.pid, child.pid} <= {found.pid for found in descendants(os.getpid())}
        assert process.pid not in {found.pid for found in descendants(process.pid)}
        assert resident(process.pid) > 1 << 20
        os.kill(child.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert descendants(process.pid) == []


def test_the_dead_are_no_descendants() -> None:
    process = subprocess.Popen(["true"])
    assert eventually(lambda: not alive(process.pid))  # a zombie until it is waited for
    assert process.pid not in {found.pid for found in descendants(os.getpid())}
    process.wait()


def test_both_ways_of_listing_processes_agree() -> None:
    from torchsleuth.judge.descendants import _from_proc, _from_ps

    def me(processes: object) -> Process:
        return next(process for process in processes if process.pid == os.getpid())  # type: ignore[attr-defined]

    if not Path("/bin/ps").exists():
        pytest.skip("no ps")
    proc, ps = me(_from_proc()), me(_from_ps())
    assert proc.parent == ps.parent == os.getppid()
    assert abs(proc.resident - ps.resident) < 32 << 20


def test_a_trial_may_take_a_part_of_what_is_left() -> None:
    assert 0 < default_memory_limit() < available_memory()


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
