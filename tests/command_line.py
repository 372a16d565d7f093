"""The command line as a user runs it, for tests that need more than the fixture `run_cli`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class RunCli(Protocol):
    def __call__(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]: ...


def torch_script(tmp_path: Path, source: str, name: str = "program.py") -> Path:
    """Write a program that begins with `import torch`; return its path."""
    script = tmp_path / name
    script.write_text("import torch\n" + textwrap.dedent(source), encoding="utf-8")
    return script


def environment_without_torch_settings() -> dict[str, str]:
    """This environment less every TORCH* variable, so that a developer's own settings do not reach a test."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TORCH")}


def explain_command(
    folder: Path, *words: str, env: Mapping[str, str], options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`torchsleuth explain --out out OPTIONS WORDS` in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "torchsleuth", "explain", "--out", "out", *options, *words],
        cwd=folder, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
