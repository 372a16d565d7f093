"""A model's graphs, captured and rendered, compile to the kernels that the model itself compiled to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "mode", "shapes"),
    [
        ("deberta", "training", "dynamic"),
        ("t5", "training", "static"),
        ("gpt2", "inference", "dynamic"),
        ("convnext", "training", "static"),  # its backward is given tensors strided otherwise than it was traced with
    ],
)
def test_carried_graphs_compile_to_the_same_kernels(model: str, mode: str, shapes: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    command = [sys.executable, str(BENCHMARK), "--models", model, "--modes", mode, "--shapes", shapes]

    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "kept")],
        env={name: value for name, value in os.environ.items() if not name.startswith("TORCH")},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"
