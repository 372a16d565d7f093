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


_KERNEL = """
    import triton
    import triton.language as tl

    @triton.jit
    def scaled(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, x * factor, mask=at < n)

    def scale(x):
        out = torch.empty_like(x)
        scaled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), 2.5, BLOCK=64)
        return out

    def backend(module, inputs):
        names = [str(n.target) for n in module.graph.nodes]
        if any("triton_kernel_wrapper" in n for n in names) and any("relu" in n for n in names):
            raise ValueError("a kernel and relu")
        return module

    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()

    def f(x):
        return torch.relu(scale(model(x).sin())).cos() + 1

    x = torch.randn(4, 32, device="cuda")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend={})(x), f(x), rtol=1e-3, atol=1e-3)
"""


def _failure_of(run_cli: RunCli, tmp_path: Path, program: str) -> dict[str, Any]:
    script = torch_script(tmp_path, program)
    run_cli("run", "--out", tmp_path / "out", script, timeout=600)
    result: dict[str, Any] = json.loads((tmp_path / "out" / "result.json").read_text())
    [failure] = result["failures"]
    assert failure["repro"]["verified"]
    found: dict[str, Any] = failure
    return found


def test_a_triton_kernel_of_the_users_is_carried(run_cli: RunCli, tmp_path: Path) -> None:
    failure = _failure_of(run_cli, tmp_path, _KERNEL.format("backend"))
    text = (tmp_path / "out" / "repro.py").read_text()
    assert failure["repro"]["ops"] == 2
    assert "@triton.jit" in text
    assert "scaled[(" in text


def test_a_triton_kernel_that_does_not_matter_goes(run_cli: RunCli, tmp_path: Path) -> None:
    fault = (
        'import torch._inductor.config\n    torch._inductor.config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"\n'
    )
    failure = _failure_of(run_cli, tmp_path, f"    {fault}" + _KERNEL.format('"inductor"'))
    text = (tmp_path / "out" / "repro.py").read_text()
    assert failure["repro"]["ops"] == 1
    assert "triton.jit" not in text
