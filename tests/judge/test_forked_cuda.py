"""CUDA after a fork; where it cannot be started there, workers are spawned."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from judge_helpers import eventually

from torchsleuth.errors import JudgeBroken
from torchsleuth.judge import ForkedCudaJudge, SpawnedJudge, Trial, Verdict
from torchsleuth.judge.descendants import descendants

ON_CUDA = """
import torch

def f(x):
    return torch.relu(x + 1)

x = torch.ones(3, device="cuda", requires_grad=True)
torch.compile(f)(x).sum().backward()
assert x.grad.sum().item() == 3
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA can be started here")
def test_without_cuda_in_a_fork_workers_are_spawned(tmp_path: Path, environment: dict[str, str]) -> None:
    before = {process.pid for process in descendants(os.getpid())}
    with ForkedCudaJudge(sys.executable, environment, jobs=1, scratch=tmp_path / "scratch") as judge:
        first = judge.judge(Trial("import torch\n", tmp_path))
        assert first.verdict is Verdict.PASSED
        assert isinstance(judge._instead, SpawnedJudge)
        assert "forked from this one" in (judge.scratch / "zygote.log").read_text()
        assert judge.judge(Trial("import torch\ntorch.ones(2) + torch.ones(3)\n", tmp_path)).verdict is Verdict.INVALID
        assert judge.judged == 1
    assert eventually(lambda: not {process.pid for process in descendants(os.getpid())} - before)


def test_an_interpreter_without_torch_is_broken_in_both_ways(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "torch.py").write_text("raise SystemError('no torch here')\n")
    with ForkedCudaJudge(sys.executable, environment, [str(tmp_path)], jobs=1, scratch=tmp_path / "scratch") as judge:
        for _ in range(2):
            assert judge.judge(Trial("import torch\n", tmp_path)).verdict is Verdict.UNKNOWN
        with pytest.raises(JudgeBroken, match="no torch here"):
            judge.judge(Trial("import torch\n", tmp_path))
        assert judge.judged == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_is_started_after_the_fork(tmp_path: Path, environment: dict[str, str]) -> None:
    with ForkedCudaJudge(sys.executable, environment, jobs=2, scratch=tmp_path / "scratch") as judge:
        outcomes = judge.judge_all([Trial(ON_CUDA, tmp_path), Trial(ON_CUDA.replace("== 3", "== 4"), tmp_path)])
        assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED, Verdict.INVALID]
        assert judge._instead is None
