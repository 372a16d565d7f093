"""Reading a trace is for machines without a GPU, without torch, in a hurry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_COMMAND = """
import sys
from torchsleuth.cli.main import main
sys.argv = ["torchsleuth", "explain", "--out", "out", "trace"]
try:
    main()
except SystemExit as ended:
    heavy = ("torch", "rich", "torchsleuth.judge", "torchsleuth.locate", "torchsleuth.reduce")
    print(ended.code, "torchsleuth.commands.explaining" in sys.modules, [m for m in heavy if m in sys.modules])
"""


def test_reading_a_trace_needs_neither_torch_nor_what_judges(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "dedicated_log_torch_trace_empty.log").touch()
    done = subprocess.run([sys.executable, "-c", _COMMAND], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].endswith("True []"), done.stdout + done.stderr
