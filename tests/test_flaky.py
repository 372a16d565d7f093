"""A failure that comes and goes, through the whole tool: reduced rightly, and said to come and go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import RunCli, torch_script

PROGRAM = """
    import os

    def every_other_time(gm, inputs):
        counts = {counts!r}
        os.close(os.open(os.path.join(counts, os.urandom(8).hex()), os.O_CREAT))
        if any("relu" in str(n.target) for n in gm.graph.nodes) and len(os.listdir(counts)) % 2:
            raise ValueError("not this time")
        return gm.forward

    def f(x):
        for _ in range(4):
            x = torch.cos(torch.sin(x))
        return torch.cos(torch.relu(x))

    torch.compile(f, backend=every_other_time)(torch.randn(4, 4))
"""


@pytest.mark.slow
def test_every_other_time(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "counts").mkdir()
    program = torch_script(tmp_path, PROGRAM.format(counts=str(tmp_path / "counts")))
    done = run_cli("run", "--out", "out", program)
    assert done.returncode == 1, done.stderr
    [failure] = json.loads((tmp_path / "out" / "result.json").read_text())["failures"]
    repro = failure["repro"]
    assert repro["verified"]
    assert repro["ops"] == 1
    assert 0 < repro["failed_runs"] < repro["runs"], "never called certain"
    assert "Flaky: it failed in" in (tmp_path / "out" / "repro.py").read_text()
    assert f"failed the same way in {repro['failed_runs']} of {repro['runs']} fresh processes" in done.stdout
