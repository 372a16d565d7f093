"""What a replay is compared with: the result document and repro.py, without times and paths."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from replaying.places import Places

RESULT, REPRO = "golden.json", "golden_repro.txt"
_TIMES = {"seconds", "torchsleuth"}  # and the version of torchsleuth itself
_CONTEXT = 4


def of_output(out: Path, places: Places) -> dict[str, str]:
    """The golden files of an output folder, by name."""
    document = next(one for one in (out / "result.json", out / "explain.json") if one.exists())
    data = _without_times(json.loads(document.read_text(encoding="utf-8")))
    found = {RESULT: places.hide(json.dumps(data, indent=1, ensure_ascii=False)) + "\n"}
    if (out / "repro.py").exists():
        found[REPRO] = places.hide((out / "repro.py").read_text(encoding="utf-8"))
    return found


def difference(wanted: dict[str, str], found: dict[str, str]) -> str:
    """A unified diff of golden files; empty where they are the same."""
    lines: list[str] = []
    for name in sorted({*wanted, *found}):
        sides = wanted.get(name, "").splitlines(), found.get(name, "").splitlines()
        lines += difflib.unified_diff(*sides, f"recorded/{name}", f"now/{name}", lineterm="", n=_CONTEXT)
    return "\n".join(lines)


def read(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text(encoding="utf-8") for name in (RESULT, REPRO) if (folder / name).exists()}


def write(folder: Path, found: dict[str, str]) -> None:
    for name in (RESULT, REPRO):
        (folder / name).unlink(missing_ok=True)
        if name in found:
            (folder / name).write_text(found[name], encoding="utf-8")


def _without_times(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_times(value) for name, value in data.items() if name not in _TIMES}
    return [_without_times(value) for value in data] if isinstance(data, list) else data
