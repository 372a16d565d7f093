"""The nearest passing neighbour: of all scripts that passed, the one that differs least from the one that fails."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LINES = 8  # a longer difference explains nothing


def nearest(failing: str, passing: Iterable[str]) -> str:
    """The difference as lines that begin with - (fails) and + (passes); empty where none is near."""
    best: list[str] = []
    for source in passing:
        lines = difference(failing, source)
        if lines and len(lines) <= _MOST_LINES and (not best or _size(lines) < _size(best)):
            best = lines
    return "\n".join(best)


def difference(failing: str, passing: str) -> list[str]:
    if abs(failing.count("\n") - passing.count("\n")) > _MOST_LINES:
        return []
    compared = difflib.unified_diff(failing.splitlines(), passing.splitlines(), lineterm="", n=0)
    return [line for line in compared if not line.startswith(("---", "+++", "@@")) and line[1:].strip()]


def _size(lines: list[str]) -> tuple[int, int]:
    return len(lines), sum(map(len, lines))
