"""The same command with the same --out goes on where it was cut short; nothing else writes into a folder in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchsleuth.commands import going_on
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.errors import OutputUnwritable

COMMAND = ["run", "python", "x.py"]


def begun(out: Path) -> Path:
    return make_output_folder(out, ["x.py"], COMMAND)


def test_a_run_that_was_cut_short_is_gone_on_with(tmp_path: Path) -> None:
    out = begun(tmp_path / "out")
    for name in ("cases/f1/journal.jsonl", "repro.py", "logs/watch/hello", "result.json"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")
    assert begun(tmp_path / "out") == out
    left = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert left == {"cases/f1/journal.jsonl", "repro.py", "logs/unfinished.json"}


def test_another_command_or_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path / "out")
    with pytest.raises(OutputUnwritable, match="is not empty"):
        make_output_folder(tmp_path / "out", ["y.py"], ["run", "python", "y.py"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputUnwritable, match="is not empty"):
        begun(tmp_path / "out")


def test_a_run_that_came_to_its_end_is_not_gone_on_with(tmp_path: Path) -> None:
    out = begun(tmp_path / "out")
    (out / "repro.py").write_text("x")
    going_on.end(out, [out / "repro.py"])
    assert [p.name for p in out.iterdir()] == ["repro.py"]
    with pytest.raises(OutputUnwritable, match="is not empty"):
        begun(tmp_path / "out")


def test_a_repro_that_was_not_arrived_at_again_is_set_aside(tmp_path: Path) -> None:
    out = begun(tmp_path / "out")
    (out / "repro.py").write_text("of an earlier run")
    begun(tmp_path / "out")
    going_on.end(out, [])
    assert [p.name for p in out.iterdir()] == ["earlier-repro.py"]


def test_a_repro_of_this_run_stays_although_the_result_does_not_name_it(tmp_path: Path) -> None:
    """A fault of our own may have cost the finding, and not what was verified before."""
    out = begun(tmp_path / "out")
    (out / "repro.py").write_text("of an earlier run")
    begun(tmp_path / "out")
    os.utime(out / "repro.py", ns=(1, 1))
    going_on.end(out, [])
    assert [p.name for p in out.iterdir()] == ["repro.py"]


def test_a_mark_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    out = begun(tmp_path / "out")
    (out / going_on.MARK).write_text("{")
    with pytest.raises(OutputUnwritable, match="is not empty"):
        begun(tmp_path / "out")
