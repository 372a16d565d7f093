"""`torchsleuth explain`, as a user types it: programs that die, traces made earlier, --fullgraph, nothing at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import environment_without_torch_settings, explain_command, torch_script

ENVIRONMENT = environment_without_torch_settings()

PROGRAM = """
@torch.compile(backend="eager")
def toy(x):
    y = x + 1
    print("in toy")
    return y * 2

for _ in range(3):
    toy(torch.ones(3))
"""
DIES = PROGRAM + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
RAISES = PROGRAM + "\nraise SystemExit(7)\n"


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "explain.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_the_program_is_left_alone(tmp_path: Path) -> None:
    script = torch_script(tmp_path, RAISES)
    alone = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    done = explain_command(tmp_path, script.name, env=ENVIRONMENT)
    assert alone.returncode == 7
    assert facts(tmp_path)["exit_code"] == 7
    assert done.returncode == 4
    assert done.stdout.startswith(alone.stdout + "\n")
    assert done.stdout.splitlines()[-1] == "out/report.html"
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.slow
def test_a_program_that_is_killed_is_explained_as_far_as_it_came(tmp_path: Path) -> None:
    script = torch_script(tmp_path, DIES)
    explain_command(tmp_path, script.name, env=ENVIRONMENT)
    found = facts(tmp_path)
    assert found["exit_code"] == -9
    assert [(b["reason"], b["count"], b["counted"]) for b in found["breaks"]] == [("print()", 3, True)]


@pytest.mark.slow
def test_a_trace_made_earlier_will_do(tmp_path: Path) -> None:
    """It holds no hits.  A program that is traced already goes on to be, where its user wants it."""
    script = torch_script(tmp_path, PROGRAM)
    trace = tmp_path / "mine"
    explain_command(tmp_path, script.name, env={**ENVIRONMENT, "TORCH_TRACE": str(trace)})
    assert [b["count"] for b in facts(tmp_path)["breaks"]] == [3]
    (log,) = trace.iterdir()
    log.write_text(log.read_text(encoding="utf-8") + "V1115 and then the disk was full", encoding="utf-8")
    done = explain_command(tmp_path, "mine", env=ENVIRONMENT, options=("--out", "again"))
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "again" / "explain.json").read_text(encoding="utf-8"))
    (found,) = again["breaks"]
    assert (found["reason"], found["source"], found["counted"]) == ("print()", f"{script.name}:6", False)
    assert any("1 line(s) of the trace could not be read" in note for note in again["notes"])


@pytest.mark.slow
def test_fullgraph_ends_at_the_first_break(tmp_path: Path) -> None:
    script = torch_script(tmp_path, PROGRAM + "\nimport time\ntime.sleep(60)\nprint('never')\n")
    done = explain_command(tmp_path, script.name, env=ENVIRONMENT, options=("--fullgraph",))
    assert done.returncode == 1
    assert f"{script.name}:6 in toy: print()" in done.stdout
    assert "never" not in done.stdout
    clean = torch_script(tmp_path, PROGRAM.replace('print("in toy")', "pass"), "clean.py")
    assert explain_command(tmp_path, clean.name, env=ENVIRONMENT, options=("--fullgraph", "--out", "b")).returncode == 0


@pytest.mark.slow
def test_marking_dynamic_is_tried(tmp_path: Path) -> None:
    source = """
@torch.compile(backend="eager", dynamic=False)
def sizes(x):
    return x * 2

@torch.compile(backend="eager")
def rank(y):
    return y * 2

for n in (3, 5, 7):
    print(sizes(torch.ones(n)).shape)
rank(torch.ones(3)), rank(torch.ones(3, 3))
"""
    script = torch_script(tmp_path, source)
    done = explain_command(tmp_path, script.name, env=ENVIRONMENT, options=("--try-dynamic",))
    tried = {r["function"]: r["tried"] for r in facts(tmp_path)["recompiles"]}
    assert tried == {"sizes": "Tried: with x marked dynamic, it is not compiled again for this.", "rank": None}
    assert done.stdout.count("torch.Size([7])") == 1  # the second run says nothing
    assert any("run once more, with L['x'] marked dynamic" in note for note in facts(tmp_path)["notes"])


@pytest.mark.slow
def test_a_program_that_compiles_nothing(tmp_path: Path) -> None:
    done = explain_command(tmp_path, torch_script(tmp_path, "").name, env=ENVIRONMENT)
    assert done.returncode == 2
    assert "torch's trace of it holds no compilation" in done.stdout


@pytest.mark.slow
def test_a_graphs_folder_holds_every_stage(tmp_path: Path) -> None:
    source = """
@torch.compile
def f(x):
    return torch.relu(x) * 2 + x

f(torch.ones(3, requires_grad=True)).sum().backward()
"""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    script = torch_script(tmp_path, source)
    explain_command(tmp_path, script.name, env={**ENVIRONMENT, **caches}, options=("--ir",))
    (graph,) = facts(tmp_path)["graphs"]
    assert set(graph["files"]) == {
        "graph.py", "runnable.py", "runnable_backward.py", "joint.py", "forward.py", "backward.py", "transformed.py",
        "transformed_backward.py", "ir_before_fusion.txt", "ir_after_fusion.txt", "ir_before_fusion_backward.txt",
        "ir_after_fusion_backward.txt", "output_code.py", "output_code_backward.py", "guards.txt", "generated.py",
        "kernels.txt",
    }  # fmt: skip
    folder = tmp_path / "out" / graph["folder"]
    assert "torch.relu" in (folder / "graph.py").read_text()
    assert f"{script.name}:5: return torch.relu(x) * 2 + x" in (folder / "kernels.txt").read_text()
    assert "op0" in (folder / "ir_before_fusion.txt").read_text()
    ran = subprocess.run(
        [sys.executable, str(folder / "runnable.py")], env={**ENVIRONMENT, **caches}, capture_output=True, text=True,
        check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_processes_and_forks_are_all_there(tmp_path: Path) -> None:
    source = (
        PROGRAM
        + """
import os, subprocess, sys
if len(sys.argv) == 1:
    child = os.fork()
    if child == 0:
        toy(torch.ones(3))                      # what the parent compiled serves
        toy(torch.ones(3, 3))                   # compiled here
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run([sys.executable, __file__, "child"], check=True)
"""
    )
    explain_command(tmp_path, torch_script(tmp_path, source).name, env=ENVIRONMENT)
    found = facts(tmp_path)
    assert [(b["reason"], b["count"]) for b in found["breaks"]] == [("print()", 3 + 1 + 1 + 3)]
    assert found["processes"] == 3


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = explain_command(tmp_path, "empty", env=ENVIRONMENT)
    assert done.returncode == 2
    assert "holds no trace" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_program_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    done = explain_command(tmp_path, "nowhere.py", env=ENVIRONMENT)
    assert done.returncode == 2
    assert "nowhere.py" in done.stderr
    assert not (tmp_path / "out").exists()


MANY = """
import torch.nn as nn

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, scale):
        y = torch.relu(self.lin(x)) * scale
        print("in part")
        return y + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x, scale):
        return self.part(x, scale).sum()

net = torch.compile(Net())
for s in (0.5, 1.5):
    net(torch.ones(2, 4), s).backward()
"""


@pytest.mark.slow
def test_small_scripts_are_made_of_breaks_and_recompilations(tmp_path: Path) -> None:
    script = torch_script(tmp_path, MANY)
    ended = explain_command(tmp_path, "--minimize", "--budget", "120", sys.executable, str(script), env=ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr
    found = facts(tmp_path)
    made = {e["example"]["path"]: e["example"] for kind in ("breaks", "recompiles") for e in found[kind]}
    assert "examples/break-1.py" in made
    assert "examples/recompile-1.py" in made
    for path, one in made.items():
        again = subprocess.run(
            [sys.executable, str(tmp_path / "out" / path)], env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert one["raises"]
        assert again.returncode == 1
        assert ("Unsupported" if "break" in path else "RecompileError") in again.stderr
        assert one["lines"] < len(MANY.splitlines())
        assert path in ended.stdout
        assert path in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_trace_cannot_be_made_smaller(tmp_path: Path) -> None:
    ended = explain_command(tmp_path, "--minimize", str(tmp_path), env=ENVIRONMENT)
    assert ended.returncode == 2
    assert "holds no program" in ended.stderr
