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
_STANDING = "repro_of_an_earlier_run"  # when that was written, where one stands there
_WRITTEN_AT_THE_END = ("result.json", "report.html", "issue.md", "explain.json")


def begin(out: Path, command: Sequence[str]) -> None:
    files.write_json(out / MARK, {**_mark(command), _STANDING: _age(out / "repro.py")})


def was_begun(out: Path, command: Sequence[str]) -> bool:
    """Whether this command, given in this folder, was cut short in `out`."""
    return {**_read(out), **_mark(command)} == _read(out)


def clear(out: Path) -> None:
    """Remove what the earlier run wrote for itself and what would look like a result of this one."""
    shutil.rmtree(out / "logs", ignore_errors=True)
    for name in _WRITTEN_AT_THE_END:
        (out / name).unlink(missing_ok=True)


def end(out: Path, repros: Collection[Path]) -> None:
    """The run came to its end.  A repro of an earlier run that it did not arrive at again is set aside."""
    script = out / "repro.py"
    standing = _read(out).get(_STANDING)
    with suppress(OSError):
        (out / MARK).unlink(missing_ok=True)
        if standing is not None and standing == _age(script) and all(path.resolve() != script for path in repros):
            script.replace(out / EARLIER)
        (out / MARK).parent.rmdir()  # where nothing else was logged


def _mark(command: Sequence[str]) -> dict[str, object]:
    return {"command": list(command), "folder": os.getcwd()}


def _read(out: Path) -> dict[str, object]:
    try:
        found = json.loads((out / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _age(script: Path) -> int | None:
    try:
        return script.stat().st_mtime_ns
    except OSError:
        return None
