"""The measurement of runs that are cut short sees what is not right; the tool is a stand-in."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import cut_short

OPTIONS = cut_short.Options(allow=5.0, run_repros=True, audits=False, more=())
WHOLE: dict[str, Any] = {
    "schema": 1, "torchsleuth": "1", "torch": "2", "command": [], "exit_code": 1, "verdict": "failure", "watched": {},
    "notes": [], "report": "report.html",
    "failures": [{"id": "f1", "why_not": None, "repro": {"path": "repro.py", "verified": True}}],
}  # fmt: skip

# Runs the program, then goes on until it is interrupted; it leaves a process where that is asked.
TOOL = """
import os, signal, subprocess, sys, time
out, budget, program = sys.argv[3], float(sys.argv[5]), sys.argv[-1]
signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
subprocess.run([sys.executable, program])
if "leave" in program:
    subprocess.Popen(["sleep", "600"], start_new_session=True)
time.sleep(budget)
sys.exit(4)
"""


def told(tmp_path: Path, run: cut_short.Run, **changes: Any) -> list[str]:
    (tmp_path / "result.json").write_text(json.dumps({**WHOLE, **changes}))
    (tmp_path / "repro.py").write_text("raise SystemExit(1)")
    return list(cut_short.problems(run, tmp_path, OPTIONS))


def test_a_whole_result_has_no_problem(tmp_path: Path) -> None:
    assert told(tmp_path, cut_short.Run(1, 4.0, ())) == []


def test_each_problem_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, cut_short.Run(1, 6.0, ("sleep 600",))) == [
        "exited 6.0 s after the cut",
        "left a process: sleep 600",
    ]
    assert told(tmp_path, cut_short.Run(1, 0.0, ()), schema=2) == ["result.json: schema 2, without nothing"]
    assert told(tmp_path, cut_short.Run(3, 0.0, ())) == ["exit status 3 of a verdict failure"]
    assert told(tmp_path, cut_short.Run(1, 0.0, ()), failures=[]) == [
        "a repro.py that result.json does not name as verified"
    ]
    unexplained = [*WHOLE["failures"], {"id": "f2", "why_not": None, "repro": None}]
    assert told(tmp_path, cut_short.Run(1, 0.0, ()), failures=unexplained) == ["f2 has no repro, and nothing says why"]


def test_a_repro_that_is_not_there_or_does_not_fail_is_a_problem(tmp_path: Path) -> None:
    told(tmp_path, cut_short.Run(1, 0.0, ()))
    (tmp_path / "repro.py").write_text("")
    assert list(cut_short.problems(cut_short.Run(1, 0.0, ()), tmp_path, OPTIONS)) == [
        "repro.py is named as verified and does not fail"
    ]
    (tmp_path / "repro.py").unlink()
    assert list(cut_short.problems(cut_short.Run(1, 0.0, ()), tmp_path, OPTIONS)) == [
        "repro.py is named as verified and is not there"
    ]
    (tmp_path / "result.json").unlink()
    [missing] = cut_short.problems(cut_short.Run(1, 0.0, ()), tmp_path, OPTIONS)
    assert missing.startswith("no result.json")


@pytest.mark.parametrize(
    ("cut", "status"), [(cut_short.Cut(budget=1.0), 4), (cut_short.Cut(budget=60.0, signal_after=0.5), 3)]
)
@pytest.mark.parametrize("name", ["program.py", "leave.py"])
def test_a_run_is_cut_after_its_program_and_what_it_leaves_is_seen(
    cut: cut_short.Cut, status: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    (tmp_path / name).write_text("import time; time.sleep(1)")
    monkeypatch.setattr(cut_short, "TOOL", (sys.executable, str(tmp_path / "tool.py")))
    began = time.monotonic()
    ran = cut_short.run(tmp_path / name, cut, tmp_path / "out", OPTIONS)
    assert (ran.status, ran.left) == (status, ("sleep 600",) if name == "leave.py" else ())
    assert -0.5 < ran.late < 5
    assert 1.0 + cut.seconds < time.monotonic() - began < 30
