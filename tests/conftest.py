"""What every test may use: the command line as a user runs it, and programs to run it on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from command_line import RunCli, environment_without_torch_settings


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Run `python -m torchsleuth ARGUMENTS` in `tmp_path`; whatever it leaves running is ended with it on a timeout."""

    def run(
        *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
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
