"""`torchsleuth check --record` and `--against`, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import RunCli

MODEL = """
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return x + F.gelu(self.linear(x))


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block()), (torch.randn(3, 8),)
"""


@pytest.mark.slow
def test_a_model_against_itself_and_against_another(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "other.py").write_text(MODEL.replace("F.gelu(self.linear(x))", "F.gelu(self.linear(x)) * 1.001"))
    record = tmp_path / "record"
    assert run_cli("check", tmp_path / "model.py", "--record", record).returncode == 0
    compiled = run_cli("check", tmp_path / "model.py", "--against", record, "--compiled")
    assert (compiled.returncode, compiled.stdout.startswith("alike: ")) == (0, True), compiled.stdout + compiled.stderr
    other = run_cli("check", tmp_path / "other.py", "--against", record)
    assert other.returncode == 1
    assert "they part at add in model[0]" in other.stdout
    assert "other.py:12" in other.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--record", "a", "--against", "b"), "one of the two"),
        (("--compiled",), "goes with --record"),
        (("--against", "nowhere"), "holds no record"),
        (("--record", "full"), "is not empty"),
    ],
)
def test_bad_usage(run_cli: RunCli, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    words = [str(tmp_path / word) if word in ("full", "nowhere") else word for word in options]
    done = run_cli("check", tmp_path / "model.py", *words)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_damaged_record_is_said_to_be_one(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "records.json").write_text("{")
    done = run_cli("check", tmp_path / "model.py", "--against", tmp_path / "record")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "no record that can be read" in done.stderr


def test_a_folder_that_cannot_be_written_is_said(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "file").touch()
    done = run_cli("check", tmp_path / "model.py", "--record", tmp_path / "file" / "record")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "Cannot write" in done.stderr


def test_a_model_of_which_nothing_is_captured_is_not_called_alike(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\nmodel = lambda x: 3\ninputs = (1,)\n")
    done = run_cli("check", tmp_path / "model.py", "--record", tmp_path / "record")
    assert done.returncode == 2
    assert "captured no operator" in done.stderr
