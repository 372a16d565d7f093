"""Only a compilation that is known to have succeeded is told as one."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces import beginning, ended, explained, graph, started, whole

from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.outcomes import Outcome
from torchsleuth.write.explained import text
from torchsleuth.write.page_explain import explain_page

BAD = started("1/0", "bad", 20) + graph("1/0", "torch.sin(x)") + ended("1/0", failed="InductorError: no compiler")


def test_what_failed_is_not_told_as_compiled(tmp_path: Path) -> None:
    data = to_json(explained(tmp_path, beginning(), whole("0/0"), BAD), version="0", command=(), exit_code=0)
    ends = [(f["function"], f["outcome"], f["succeeded"], f["failed"]) for f in data["frames"]]
    assert ends == [("toy", "compiled", 1, 0), ("bad", "failed", 0, 1)]
    page, told = explain_page(data), "\n".join(text(data))
    for false in ("captured whole", "compiled once, whole", "served every call"):
        assert false not in page
    assert "Failed to compile: bad (/home/me/train.py:20)." in page
    assert "1 compilation failed" in told
    assert "failed       ?" in told


def test_a_compilation_that_failed_once_and_then_succeeded(tmp_path: Path) -> None:
    (frame,) = explained(tmp_path, beginning(), BAD, whole("1/1", "bad", first=20)).frames
    assert (frame.outcome, frame.ends.succeeded, frame.ends.failed) == (Outcome.FAILED, 1, 1)


def test_a_break_that_was_an_error_is_a_failure(tmp_path: Path) -> None:
    """fullgraph=True: the program got an exception, and nothing ran uncompiled."""
    raised = started("0/0") + ended("0/0", failed="Unsupported: Failed to trace builtin operator")
    (frame,) = explained(tmp_path, beginning(), raised).frames
    assert frame.outcome is Outcome.FAILED


@pytest.mark.parametrize("calls", [None, 2])
def test_serving_every_call_is_said_where_calls_were_counted(tmp_path: Path, calls: int | None) -> None:
    data = to_json(explained(tmp_path, beginning(), whole("0/0")), version="0", command=(), exit_code=0)
    data["frames"][0]["calls"] = calls
    page = explain_page(data)
    assert "None: every function was captured whole." in page
    assert ("None: what was compiled first served every call." in page) is (calls is not None)
    assert "every function was compiled once, whole" in page
