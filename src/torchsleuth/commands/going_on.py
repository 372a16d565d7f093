"""A run that was cut short: the same command with the same --out goes on in that folder.

A mark stands in the folder while a run is under way; one that was killed or interrupted leaves it behind.  What was
judged is in the journals below `cases/` and `examples/`, which stay, as does the best repro so far.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from torchsleuth.case import files

MARK = Path("logs") / "unfinished.json"  # in the output folder
EARLIER = "earlier-repro.py"
_WRITTEN_AT_THE_END = ("result.json", "report.html", "issue.md", "explain.json")


def begin(out: Path, command: Sequence[str]) -> None:
    files.write_json(out / MARK, _mark(command))


def was_begun(out: Path, command: Sequence[str]) -> bool:
    """Whether this command, given in this folder, was cut short in `out`."""
    try:
        return bool(json.loads((out / MARK).read_text(encoding="utf-8")) == _mark(command))
    except (OSError, ValueError):
        return False


def clear(out: Path) -> None:
    """Remove what the earlier run wrote for itself and what would look like a result of this one."""
    shutil.rmtree(out / "logs", ignore_errors=True)
    for name in _WRITTEN_AT_THE_END:
        (out / name).unlink(missing_ok=True)


def end(out: Path, repros: Collection[Path]) -> None:
    """The run came to its end.  A repro of an earlier run that it did not arrive at again is set aside."""
    with suppress(OSError):
        (out / MARK).unlink(missing_ok=True)
        script = out / "repro.py"
        if script.exists() and not any(path.resolve() == script for path in repros):
            script.replace(out / EARLIER)
        (out / MARK).parent.rmdir()  # where nothing else was logged


def _mark(command: Sequence[str]) -> dict[str, object]:
    return {"command": list(command), "folder": os.getcwd()}
