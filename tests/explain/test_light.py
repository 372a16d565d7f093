"""Reading a trace is for machines without a GPU, without torch, in a hurry."""

from __future__ import annotations

import subprocess
import sys


def test_reading_a_trace_needs_neither_torch_nor_what_judges() -> None:
    script = (
        "import sys\nimport torchsleuth.explaining\n"
        "print([m for m in ('torch', 'rich', 'torchsleuth.judge', 'torchsleuth.reduce') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
