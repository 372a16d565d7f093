"""The command line called in this process: no subprocess, so the tests take milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_helpers import Cli, Said

from torchsleuth.cli import main


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`torchsleuth ARGUMENTS`, in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        status = ended.value.code
        assert isinstance(status, int)
        return Said(status, *capsys.readouterr())

    return call
