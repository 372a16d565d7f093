"""What every test may use: the command line as a user runs it, and programs to run it on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest


class RunCli(Protocol):
    def __call__(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]: ...


def torch_script(tmp_path: Path, source: str, name: str = "program.py") -> Path:
    """Write a program that begins with `import torch`; return its path."""
    script = tmp_path / name
    script.write_text("import torch\n" + textwrap.dedent(source), encoding="utf-8")
    return script


def environment_without_torch_settings() -> dict[str, str]:
    """This environment less every TORCH* variable, so that a developer's own settings do not reach a test."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TORCH")}


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Run `python -m torchsleuth ARGUMENTS` in `tmp_path`; whatever it leaves running is ended with it on a timeout."""

    def run(
        *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torchsleuth", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**environment_without_torch_settings(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    return run
