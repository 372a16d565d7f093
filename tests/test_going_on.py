"""kill -9 of the whole tool: nothing is left running, and `minimize` goes on from the journal to the same result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from command_line import RunCli, environment_without_torch_settings, torch_script

PROGRAM = """
    def picky(gm, inputs):
        names = [str(n.target) for n in gm.graph.nodes]
        if any("relu" in n for n in names) and any("tanh" in n for n in names):
            raise ValueError("not both")
        return gm.forward

    def f(x):
        for _ in range(5):
            x = torch.sin(x) * 2
        x = torch.relu(x)
        for _ in range(5):
            x = torch.cos(x) + 1
        return torch.tanh(x)

    torch.compile(f, backend=picky)(torch.randn(16, 24))
"""


class Minimizing:
    """`torchsleuth minimize --trust --out OUT CASE`, until it is killed."""

    def __init__(self, cwd: Path, out: str) -> None:
        self._log = (cwd / f"{out}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torchsleuth", "minimize", "--trust", "--out", out, "kept"],
            cwd=cwd, env=environment_without_torch_settings(), stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._said = cwd / f"{out}.log"

    def wait_until(self, lines: int, journal: Path) -> None:
        """Until the journal has so many lines, or it ended."""
        until = time.monotonic() + 180
        while self.process.poll() is None and _lines(journal) < lines:
            assert time.monotonic() < until, self._said.read_text()
            time.sleep(0.02)

    def kill(self) -> list[psutil.Process]:
        """Which of the processes below it are left, after a while."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=30)
        return [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _judgements(path: Path) -> list[str]:
    return [row["key"] for row in map(json.loads, path.read_text().splitlines()) if "key" in row]


def _result(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    return found


@pytest.mark.slow
def test_after_kill_9_it_goes_on_and_comes_to_the_same_end(tmp_path: Path, run_cli: RunCli) -> None:
    program = torch_script(tmp_path, PROGRAM)
    assert run_cli("run", "--capture", "1", "--out", "kept", program).returncode == 3
    case = tmp_path / "kept" / "cases" / "f1"
    journal = case / "journal.jsonl"
    # While the judge starts, after a few judgements, and in the middle of the simplifying passes.
    for number, lines in enumerate((0, 4, 9, 14)):
        tool = Minimizing(tmp_path, f"cut-{number}")
        try:
            tool.wait_until(lines, journal)
            time.sleep(0.3)
            if tool.process.poll() is None:
                assert tool.kill() == []
        finally:
            tool.close()
        if number >= 2:
            written = sorted((tmp_path / f"cut-{number}" / "cases" / "f1" / "checkpoints").glob("*.py"))
            assert written, "each smaller script is there as soon as it is known"
    before = _judgements(journal)
    assert len(before) >= 5

    last = run_cli("minimize", "--trust", "--out", "last", "kept")
    assert last.returncode == 1, last.stderr
    assert f"going on from a journal of {len(set(before))} judgements" in last.stderr
    judged = _judgements(journal)
    assert len(judged) == len(set(judged)), "nothing is judged twice"
    assert judged[: len(before)] == before

    journal.unlink()
    whole = run_cli("minimize", "--trust", "--out", "whole", "kept")
    assert whole.returncode == 1, whole.stderr
    assert (tmp_path / "last" / "repro.py").read_text() == (tmp_path / "whole" / "repro.py").read_text()
    ours, theirs = (_result(tmp_path / out)["failures"][0] for out in ("last", "whole"))
    assert ours["repro"]["ops"] == 2
    assert ours["reduction"]["judged"] == theirs["reduction"]["judged"]
    assert ours["reduction"]["judged_to_smallest"] == theirs["reduction"]["judged_to_smallest"]
