"""Whole programs whose reruns must not be misread."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import RunCli, torch_script

CONDITIONING = Path(__file__).resolve().parents[1] / "benchmarks" / "conditioning"

pytestmark = pytest.mark.slow


def concluded(run_cli: RunCli, tmp_path: Path, script: Path) -> dict[str, Any]:
    run_cli("run", "--no-minimize", "--out", tmp_path / "out", sys.executable, script)
    result: dict[str, Any] = json.loads((tmp_path / "out" / "result.json").read_text())
    return result


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("comparison_at_a_threshold", "no result of a graph is moved much further"),
        ("inverse_of_near_singular", "aten.linalg_inv_ex.default"),
    ],
)
def test_a_program_that_is_sensitive_to_rounding_is_at_fault_itself(
    run_cli: RunCli, tmp_path: Path, program: str, named: str
) -> None:
    result = concluded(run_cli, tmp_path, CONDITIONING / "sensitive" / f"{program}.py")
    assert (result["verdict"], result["failures"]) == ("program-error", [])
    (note,) = [note for note in result["notes"] if "sensitive to rounding" in note]
    assert named in note
    assert not any("to blame" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("program", "component"), [("dynamo_stale_method", "dynamo"), ("relu_before_cancelling_sum", "inductor")]
)
def test_a_bug_in_a_program_that_looks_like_one_is_found(
    run_cli: RunCli, tmp_path: Path, program: str, component: str
) -> None:
    result = concluded(run_cli, tmp_path, CONDITIONING / "bugs" / f"{program}.py")
    (failure,) = result["failures"]
    assert (result["verdict"], failure["component"]) == ("failure", component)


def test_a_program_that_refuses_to_run_twice_does_not_fail_in_eager(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
        import os
        import torch._inductor.config

        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
        os.mkdir("results")
        x = torch.ones(4)
        y = torch.compile(lambda x: torch.relu(x) * os.getpid())(x)
        assert (y == x * os.getpid()).all(), "wrong"
        """,
    )
    result = concluded(run_cli, tmp_path, script)
    assert result["exit_code"] == 1
    assert not any("fails with compilation off" in note for note in result["notes"])
    assert not any("to blame" in note for note in result["notes"])
    assert any("FileExistsError" in note for note in result["notes"])


def test_a_failure_of_aot_inductor_is_not_watched(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
        import torch._inductor.config

        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x)

        exported = torch.export.export(Model(), (torch.ones(4),))
        torch._inductor.aoti_compile_and_package(exported)
        """,
    )
    result = concluded(run_cli, tmp_path, script)
    assert (result["verdict"], result["failures"]) == ("not-watched", [])
    assert any("AOTInductor" in note for note in result["notes"])
    assert not any("fails with compilation off" in note for note in result["notes"])
