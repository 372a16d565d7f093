"""On CUDA, where trials cannot be forked and kernels are Triton's: never in CI, which has no such device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import RunCli, torch_script

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]

_MODEL = """
    import torch._inductor.config
    torch._inductor.config.triton.inject_relu_bug_TESTING_ONLY = "{}"

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
    ).cuda()
    x = torch.randn(4, 32, device="cuda")
    torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=1e-3, atol=1e-3)
"""


@pytest.mark.parametrize("fault", ["compile_error", "runtime_error", "accuracy"])
def test_a_fault_in_tritons_relu_is_reduced_to_relu(run_cli: RunCli, tmp_path: Path, fault: str) -> None:
    script = torch_script(tmp_path, _MODEL.format(fault))
    run_cli("run", "--out", tmp_path / "out", script, timeout=600)
    result: dict[str, Any] = json.loads((tmp_path / "out" / "result.json").read_text())
    [failure] = result["failures"]
    assert (result["verdict"], failure["component"]) == ("failure", "inductor")
    assert (failure["repro"]["ops"], failure["repro"]["verified"]) == (1, True)
    text = (tmp_path / "out" / "repro.py").read_text()
    assert "relu" in text
    assert "cuda" in text
