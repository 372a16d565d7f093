"""Faults planted inside the real compiler by a module that the program imports: each is named, on a Case of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from planted import PLACES, PROGRAM

pytestmark = pytest.mark.slow


def locate(folder: Path, place: str, kind: str, side: str) -> dict[str, Any]:
    planted = PLACES[place]
    operator = planted.forward if side == "forward" else planted.backward
    assert operator is not None
    (folder / "plant.py").write_text(planted.source.replace("OP", operator).replace("ERROR", str(kind == "error")))
    (folder / "program.py").write_text(PROGRAM.replace("{grad}", str(side == "backward")))
    done = subprocess.run(
        [sys.executable, "-m", "torchsleuth", "locate", "--out", "out", sys.executable, "program.py"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},  # it does not know what was planted
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text())["failures"][0]
    assert found["component"] == "user", "the program plants it, and passes without what it plants"
    assert str(found["culprit"]["pass"]).startswith(planted.says.replace("OP", operator))
    return found


def test_a_wrong_lowering_of_the_backward_is_named_with_the_line_that_made_it(tmp_path: Path) -> None:
    found = locate(tmp_path, "lowering", "numbers", "backward")
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if "torch.asinh" in text)
    assert found["culprit"]["source"].endswith(f"program.py:{line}")
    assert found["inside"]["passes_without_it"]


def test_a_pass_that_raises_is_named_and_guessed_first(tmp_path: Path) -> None:
    found = locate(tmp_path, "joint pass", "error", "forward")
    assert found["inside"]["judged"] <= 6
    assert found["inside"]["passes_without_it"]


def test_a_wrong_pass_is_shown_at_work(tmp_path: Path) -> None:
    found = locate(tmp_path, "post-grad pass", "numbers", "forward")
    assert "-    asinh = torch.ops.aten.asinh.default" in found["inside"]["diff"]
    assert "disabled_passes" in found["workaround"]


def test_a_wrong_decomposition_is_named(tmp_path: Path) -> None:
    locate(tmp_path, "decomposition", "numbers", "forward")
