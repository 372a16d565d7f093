"""A script and its data are replaced so that a kill at any moment leaves a complete pair."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.investigate.published import publish, rewrite

READS = 'data = torch.load("repro_data.pt")  # {}\n'


class Killed(BaseException):
    """Raised in the place of a file operation, as kill -9 would end the process there."""


class Operations:
    """Lets the first `left` file operations through."""

    def __init__(self, left: int) -> None:
        self.left = left

    def count(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if self.left == 0:
                raise Killed
            self.left -= 1
            return operation(*given, **named)

        return counted


def data_in(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)
    return folder / name


def pair(folder: Path) -> tuple[str, str | None]:
    """Which script stands there, and the data that it reads."""
    text = (folder / "repro.py").read_text()
    read = re.search(r'torch\.load\("(.*)"\)', text)
    return text.rpartition("# ")[2].strip(), (folder / read.group(1)).read_text() if read else None


def killed_after(operations: int, monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> bool:
    """Whether the step came to its end."""
    counter = Operations(operations)
    with monkeypatch.context() as patch:
        # What pathlib and shutil call; a kill leaves no time for clearing up either, so unlink and close count too.
        for name in ("open", "replace", "rename", "unlink", "chmod", "mkdir"):
            patch.setattr(os, name, counter.count(getattr(os, name)))
        for name in ("open", "write_text", "unlink", "replace", "chmod"):
            patch.setattr(Path, name, counter.count(getattr(Path, name)))
        patch.setattr(shutil, "copy", counter.count(shutil.copy))
        try:
            step()
        except Killed:
            return False
    return True


@pytest.mark.parametrize(
    ("old", "new"), [("one", "two"), ("one", "one"), ("one", None), (None, "two"), (None, None)]
)  # fmt: skip
def test_a_complete_pair_stands_there_whenever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str | None, new: str | None
) -> None:
    wanted = {("old", old), ("new", new)}
    seen = set()
    for operations in range(200):
        out = tmp_path / f"out-{operations}"
        first = data_in(tmp_path / "first", "repro_data.pt", old) if old else None
        second = data_in(tmp_path / "second", "repro_data.pt", new) if new else None
        publish(READS.format("old") if old else "pass  # old\n", first, out)
        text = READS.format("new") if new else "pass  # new\n"
        ended = killed_after(
            operations, monkeypatch, lambda text=text, second=second, out=out: publish(text, second, out)
        )  # type: ignore[misc]
        assert pair(out) in wanted
        seen.add(pair(out)[0])
        if ended:
            break
    assert ended
    assert operations > 3
    assert seen == {"old", "new"}
    assert len(list(out.glob("repro_data*"))) == (new is not None), "data that nothing reads is removed"


def test_what_is_published_again_and_again_leaves_one_data_file(tmp_path: Path) -> None:
    for number in range(4):
        data = data_in(tmp_path / "draft", "repro_data.pt", f"values {number}")
        text, size = publish(READS.format(number), data, tmp_path / "out")
        assert size == len("values 0")
        assert pair(tmp_path / "out") == (str(number), f"values {number}")
        assert (tmp_path / "out" / "repro.py").read_text() == text
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_another_docstring_keeps_the_data_that_the_script_reads(tmp_path: Path) -> None:
    out = tmp_path / "out"
    publish(READS.format("a"), data_in(tmp_path / "draft", "repro_data.pt", "a"), out)
    text, _ = publish(READS.format("b"), data_in(tmp_path / "draft", "repro_data.pt", "b"), out)
    assert "repro_data.pt" not in text
    again = rewrite(out / "repro.py", READS.format("c"), text)
    assert pair(out) == ("c", "b")
    assert (out / "repro.py").read_text() == again
    assert rewrite(out / "repro.py", "pass  # d\n", "pass  # c\n") == "pass  # d\n"
