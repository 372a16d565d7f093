"""What a program that is run once more finds in its environment; the program is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.watch.rerun import NO_GRAPH_CACHE, Again
from torchsleuth.watch.session import OPTIONS, Options

TELL = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w')); sys.exit(int(sys.argv[2]))"


def rerun(tmp_path: Path, status: int, cached: bool) -> tuple[bool | None, dict[str, Any]]:
    told = tmp_path / "told.json"
    (tmp_path / "logs").mkdir()
    again = Again([sys.executable, "-c", TELL, str(told), str(status)], tmp_path / "logs", 1.0)
    return again.passes_alone(cached=cached), json.loads(told.read_text())


@pytest.mark.parametrize("cached", [True, False])
def test_alone_it_has_caches_of_its_own_and_draws_like_eager(tmp_path: Path, cached: bool) -> None:
    passes, environment = rerun(tmp_path, 0, cached)
    options = Options.load(environment[OPTIONS])
    assert passes
    assert (options.draw_like_eager, options.numbers, options.leave_caches) == (True, "", False)
    assert Path(environment["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(tmp_path)
    wanted = dict(os.environ) if cached else NO_GRAPH_CACHE
    assert {name: environment.get(name) for name in NO_GRAPH_CACHE} == {n: wanted.get(n) for n in NO_GRAPH_CACHE}


def test_its_exit_status_says_whether_it_passes(tmp_path: Path) -> None:
    assert rerun(tmp_path, 3, cached=True)[0] is False


NEEDS_DYNAMO = """
import json, os, sys
off = json.loads(os.environ["TORCHSLEUTH_OPTIONS"])["eager"]
sys.exit(int(off or "eager" not in os.environ.get("TORCH_COMPILE_OVERRIDE_BACKENDS", "")))
"""


@pytest.mark.parametrize(("program", "fails"), [("import sys; sys.exit(3)", True), (NEEDS_DYNAMO, False), ("", False)])
def test_a_program_that_only_cannot_do_without_dynamo_does_not_fail_in_eager(
    program: str, fails: bool, tmp_path: Path
) -> None:
    """scan and while_loop, called uncompiled, compile themselves."""
    assert Again([sys.executable, "-c", program], tmp_path, 1.0).fails_in_eager() is fails


def test_a_script_that_does_not_end_is_looked_at_for_as_long_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    wait = subprocess.Popen.wait

    def waiting(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waited.append(timeout)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", waiting)
    forever = [sys.executable, "-c", "while True: pass"]
    Again(forever, tmp_path, 5.0).look(tmp_path, 0.2)
    assert waited[0] == 0.2


@pytest.mark.slow
def test_with_entries_of_configs_as_an_error_advises(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\nimport torch._functorch.config as c, torch._inductor.config as i\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
        "raise SystemExit(c.donated_buffer or i.triton.cudagraphs)\n"
    )
    again = Again([sys.executable, str(script)], tmp_path, 1.0)
    on = {"torch._functorch.config.donated_buffer": True, "torch._inductor.config.triton.cudagraphs": False}
    assert again.passes_with(on) is False
    assert again.passes_with({**on, "torch._functorch.config.donated_buffer": False}) is True
