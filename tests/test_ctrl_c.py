"""Ctrl-C: while the program runs it is the program's; afterwards it ends the tool, with what there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from command_line import environment_without_torch_settings
from torchsleuth.investigate.rerun import Again, Match

SOON = 15.0  # seconds; promised are 5, on a machine that does nothing else


class Tool:
    """`torchsleuth run --out out program.py`, and what it says while it runs."""

    def __init__(self, cwd: Path, source: str, *options: str) -> None:
        (cwd / "program.py").write_text(textwrap.dedent(source))
        self.out = cwd / "out"
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torchsleuth", "run", "--out", "out", *options, "program.py"],
            cwd=cwd, env=environment_without_torch_settings(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(iter(self.process.stdout.readline, ""))

    def wait_for(self, words: str, seconds: float = 180) -> None:
        until = time.monotonic() + seconds
        while not any(words in line for line in self.said):
            assert time.monotonic() < until, "".join(self.said)
            assert self.process.poll() is None, "".join(self.said)
            time.sleep(0.05)

    def press_ctrl_c(self) -> tuple[float, list[psutil.Process]]:
        """How long it took to end, and which of the processes below it are left."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        took = time.monotonic() - began
        _, alive = psutil.wait_procs(family, timeout=2)
        return took, [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "result.json").read_text())
        return found

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


FAILS = """
import torch

def backend(gm, inputs):
    raise ValueError("no kernel")

torch.compile(torch.sin, backend=backend)(torch.ones(3))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["does it fail alone?", "verifying repro.py"])
def test_while_it_judges(tmp_path: Path, moment: str) -> None:
    tool = Tool(tmp_path, FAILS, "--no-minimize")
    try:
        tool.wait_for(moment)
        time.sleep(0.5)
        took, left = tool.press_ctrl_c()
    finally:
        tool.close()
    print(f"it ended after {took:.1f} s")
    assert took < SOON
    assert left == []
    assert tool.process.returncode == 3, "".join(tool.said)
    result = tool.result
    assert result["verdict"] == "not-reproduced"
    assert "stopped by Ctrl-C: not all that was found was looked into" in result["notes"]
    [failure] = result["failures"]
    assert (tool.out / failure["case"] / "case.json").exists()
    assert "stopped by Ctrl-C" in failure["why_not"]
    if moment.startswith("verifying"):
        assert failure["repro"]["verified"] is False
        assert (tool.out / failure["repro"]["path"]).exists()
        assert not (tool.out / "repro.py").exists(), "what is not verified is not announced"
    assert Path(tool.said[-1].strip()).name in ("issue.md", "repro.py")


@pytest.mark.slow
def test_while_the_program_runs(tmp_path: Path) -> None:
    tool = Tool(
        tmp_path,
        """
        import sys, time, torch
        torch.compile(torch.sin, backend="aot_eager")(torch.ones(3))
        print("ready", flush=True)
        try:
            time.sleep(120)
        except KeyboardInterrupt:
            print("interrupted, and saving my work", flush=True)
            sys.exit(7)
        """,
    )
    try:
        tool.wait_for("ready")
        took, left = tool.press_ctrl_c()
    finally:
        tool.close()
    assert took < SOON
    assert left == []
    assert "interrupted, and saving my work\n" in tool.said
    assert (tool.result["exit_code"], tool.result["verdict"]) == (7, "program-error")
    assert "the program was interrupted (Ctrl-C)" in tool.result["notes"]
    assert tool.process.returncode == 4


SLOW_TO_REDUCE = """
import time, torch

def picky(gm, inputs):
    time.sleep(1)
    names = [str(n.target) for n in gm.graph.nodes]
    if any("relu" in n for n in names) and any("tanh" in n for n in names):
        raise ValueError("not both")
    return gm.forward

def f(x):
    for _ in range(12):
        x = torch.relu(torch.sin(x))
    for _ in range(12):
        x = torch.tanh(torch.cos(x))
    return x

torch.compile(f, backend=picky)(torch.randn(16, 24))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["climbing the ladder", "simplifying"])
def test_while_it_reduces_the_smallest_verified_repro_is_in_place(tmp_path: Path, moment: str) -> None:
    tool = Tool(tmp_path, SLOW_TO_REDUCE)
    try:
        tool.wait_for(moment)
        took, left = tool.press_ctrl_c()
    finally:
        tool.close()
    print(f"it ended after {took:.1f} s")
    assert took < SOON
    assert left == []
    assert tool.process.returncode == 1, "".join(tool.said)
    [failure] = tool.result["failures"]
    assert failure["repro"]["verified"]
    assert "stopped by Ctrl-C: not all that was found was looked into" in tool.result["notes"]
    text = (tool.out / "repro.py").read_text()
    assert "torch.relu" in text
    assert "torch.tanh" in text
    assert tool.said[-1].strip() == "out/repro.py"
    if moment == "simplifying":
        smaller = sorted((tool.out / "cases" / "f1" / "checkpoints").glob("repro_*_op*.py"))
        assert smaller, "what is smaller and not verified is a checkpoint"
        assert failure["component"] == "backend"


def test_the_program_run_once_more_is_ended_and_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    again = Again(["sh", "-c", "sleep 76542 & wait; exit 1"], tmp_path / "logs", 0.0)
    threading.Timer(0.5, again.end).start()
    began = time.monotonic()
    assert again.without_compiling().match is Match.UNKNOWN
    assert time.monotonic() - began < 10
    assert not any("76542" in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))
    assert again.crash_with_values() is None
