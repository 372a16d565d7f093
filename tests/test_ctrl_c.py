"""Ctrl-C, SIGTERM and a spent budget end the tool, with what there is; while the program runs, signals are its own."""

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
from torchsleuth.investigate.rerun import Again
from torchsleuth.judge.match import Match

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

    def press_ctrl_c(self, number: signal.Signals = signal.SIGINT) -> tuple[float, list[psutil.Process]]:
        """How long it took to end, and which of the processes below it are left."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        began = time.monotonic()
        self.process.send_signal(number)
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
@pytest.mark.parametrize("moment", ["running it with backend", "simplifying"])
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


@pytest.mark.slow
def test_sigterm_ends_it_with_a_result_too(tmp_path: Path) -> None:
    tool = Tool(tmp_path, FAILS)
    try:
        tool.wait_for("does it fail alone?")
        took, left = tool.press_ctrl_c(signal.SIGTERM)
    finally:
        tool.close()
    assert took < SOON
    assert left == []
    assert tool.process.returncode == 3, "".join(tool.said)
    assert tool.result["failures"][0]["why_not"] == "stopped by SIGTERM before it was known"


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.5, 3.0, 15.0])
def test_a_budget_is_kept(tmp_path: Path, budget: float) -> None:
    """At the first, no judge has started yet; at the last, it is being reduced."""
    tool = Tool(tmp_path, SLOW_TO_REDUCE, "--budget", f"{budget:g}")
    try:
        tool.wait_for("ValueError: not both")
        began = time.monotonic()
        tool.process.wait(budget + 60)
        took = time.monotonic() - began
    finally:
        tool.close()
    print(f"it ended after {took:.1f} s")
    assert took < budget + SOON
    [failure] = tool.result["failures"]
    if failure["repro"] is None or not failure["repro"]["verified"]:
        said = f"the budget of {budget:g} s was spent"
        assert failure["why_not"] == f"{said} before it was known"
        assert f"{said}: not all that was found was looked into" in tool.result["notes"]
        assert tool.process.returncode == 3
    else:
        assert (tool.out / "repro.py").exists()
        assert tool.process.returncode == 1


IGNORES_SIGTERM = """
import signal, time, torch
signal.signal(signal.SIGTERM, lambda *_: print("saving my work", flush=True))
torch.compile(torch.sin, backend="aot_eager")(torch.ones(3))
print("ready", flush=True)
for _ in range(1200):
    time.sleep(0.1)
"""


@pytest.mark.slow
def test_the_program_may_handle_a_first_sigterm_and_is_ended_for_a_second(tmp_path: Path) -> None:
    tool = Tool(tmp_path, IGNORES_SIGTERM)
    try:
        tool.wait_for("ready")
        tool.process.send_signal(signal.SIGTERM)
        tool.wait_for("saving my work")
        time.sleep(1.0)
        assert tool.process.poll() is None
        took, left = tool.press_ctrl_c(signal.SIGTERM)
    finally:
        tool.close()
    assert took < SOON
    assert left == []
    assert tool.result["exit_code"] == -signal.SIGKILL
    assert "the program was sent SIGTERM, as the tool was" in tool.result["notes"]


# Rank 1 leaves out a collective that rank 0 waits in, in compiled code: alone, neither can be run.
RANKS = """
import os, time, torch, torch.distributed as dist
import torch.distributed._functional_collectives as collectives

def work(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    f = torch.compile(lambda x: collectives.all_reduce(x.sin(), "sum", dist.group.WORLD) + 1, backend="aot_eager")
    f(torch.ones(8))
    if rank == 1:
        time.sleep(100000)
    f(torch.ones(8))

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(os.path.abspath("store"),), nprocs=2)
"""


@pytest.mark.slow
def test_ranks_that_wait_for_each_other_are_ended(tmp_path: Path) -> None:
    tool = Tool(tmp_path, RANKS, "--hang-after", "5", "--budget", "5")
    try:
        tool.process.wait(300)
    finally:
        tool.close()
    result = tool.result
    ended = "the program was ended by torchsleuth: it was in compiled code, and no process of it did anything any more"
    assert ended in result["notes"], "".join(tool.said)
    assert [failure["kind"] for failure in result["failures"]] == ["hang"]
    assert not any("spawn_main" in " ".join(p.info["cmdline"] or []) for p in of_folder(tmp_path))


def of_folder(cwd: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if process.cwd() == str(cwd):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_the_program_run_once_more_is_ended_and_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    again = Again(["sh", "-c", "sleep 76542 & wait; exit 1"], tmp_path / "logs", 0.0)
    threading.Timer(0.5, again.end).start()
    began = time.monotonic()
    assert again.without_compiling().match is Match.UNKNOWN
    assert time.monotonic() - began < 10
    assert not any("76542" in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))
    assert again.crash_with_values() is None
