"""Which Judge a Case needs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from torchsleuth.judge.base import Judge
from torchsleuth.judge.forked import ForkedJudge
from torchsleuth.judge.forked_cuda import ForkedCudaJudge
from torchsleuth.judge.spawned import SpawnedJudge

_FORK_SAFE = {"cpu", "meta"}


def open_judge(
    devices: Collection[str],
    *,
    python: str,
    environment: Mapping[str, str],
    scratch: Path,
    path: Sequence[str] = (),
    jobs: int = 2,
) -> Judge:
    """Forked where all devices of the Case can be used after a fork, else spawned.  Devices may carry an index."""
    kinds = {device.partition(":")[0] for device in devices}
    if sys.platform == "linux" and kinds <= _FORK_SAFE:
        return ForkedJudge(python, environment, path, jobs, scratch=scratch)
    if sys.platform == "linux" and kinds <= {*_FORK_SAFE, "cuda"}:
        return ForkedCudaJudge(python, environment, path, jobs, scratch=scratch)
    return SpawnedJudge(python, environment, path, jobs, scratch=scratch, cuda="cuda" in kinds)
