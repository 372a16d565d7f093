"""Find the nearest passing neighbour: of scripts that passed, the one that differs least from the one that fails."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MOST_LINES = 8  # a longer difference explains nothing


def nearest(failing: str, passing: Sequence[str]) -> tuple[str, int | None]:
    """Choose the script that differs least; return the difference (- fails, + passes) and its place in `passing`."""
    best: list[str] = []
    place = None
    for number, source in enumerate(passing):
        lines = difference(failing, source)
        if lines and len(lines) <= _MOST_LINES and (not best or _size(lines) < _size(best)):
            best, place = lines, number
    return "\n".join(best), place


def difference(failing: str, passing: str) -> list[str]:
    if abs(failing.count("\n") - passing.count("\n")) > _MOST_LINES:
        return []
    compared = difflib.unified_diff(failing.splitlines(), passing.splitlines(), lineterm="", n=0)
    return [line for line in compared if not line.startswith(("---", "+++", "@@")) and line[1:].strip()]


def _size(lines: list[str]) -> tuple[int, int]:
    return len(lines), sum(map(len, lines))
