"""From a kept Case to the smallest program, with the command line as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import RunCli, torch_script

PROGRAM = """
    def picky(gm, inputs):
        if any("relu" in str(n.target) for n in gm.graph.nodes):
            raise ValueError("no relu today")
        return gm.forward

    def f(x):
        for _ in range(6):
            x = torch.sin(x) * 2
        x = torch.relu(x)
        for _ in range(6):
            x = torch.cos(x) + 1
        return x

    torch.compile(f, backend=picky)(torch.randn(16, 24, requires_grad=True))
"""


@pytest.mark.slow
def test_a_kept_case_is_reduced_to_the_operator_that_matters(tmp_path: Path, run_cli: RunCli) -> None:
    program = torch_script(tmp_path, PROGRAM)
    kept = run_cli("run", "--capture", "1", "--out", "kept", program)
    assert kept.returncode == 3, kept.stderr
    assert "not judged, as --capture 1 asks" in kept.stdout

    asked = run_cli("minimize", "--out", "no", "kept")
    assert asked.returncode == 2
    assert "--trust" in asked.stderr
    assert not (tmp_path / "no").exists()

    done = run_cli("minimize", "--trust", "--out", "small", "kept")
    assert done.returncode == 1, done.stderr
    result = json.loads((tmp_path / "small" / "result.json").read_text())
    failure = result["failures"][0]
    assert failure["component"] == "backend"
    assert failure["repro"]["verified"]
    assert failure["repro"]["ops"] == 1
    assert failure["repro"]["imports"] == ["torch"]
    assert failure["reduction"]["ops_before"] == 25
    assert failure["reduction"]["judged_to_smallest"] <= 12
    assert failure["culprit"]["op"] == "torch.relu"
    text = (tmp_path / "small" / "repro.py").read_text()
    assert "no relu today" in text, "the backend comes along as source"
    assert "requires_grad" not in text, "what does not matter is gone"
    assert "torch.randn(2)" in text


@pytest.mark.parametrize("what", ["nowhere", "empty"])
def test_what_is_no_case_is_refused(what: str, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "empty").mkdir()
    said = run_cli("minimize", what)
    assert said.returncode == 2
    assert "Traceback" not in said.stderr
    assert what in said.stderr
