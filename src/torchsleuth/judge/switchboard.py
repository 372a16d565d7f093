"""Inside the process of a trial: lets the compiler apply some of what it would apply, and writes down all of it.

A judged script asks for it in its own text, so that what was judged can be read off it:

    from torchsleuth.judge.switchboard import apply_only
    apply_only(first=12, among=("joint_graph_passes", "pattern"))

The compiler is deterministic: its first twelve applications are the same twelve whatever is switched off after them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from torchsleuth.judge import applied
from torchsleuth.torch_api.applications import About, on_application

_MOST_LINES = 50_000  # of the list; what comes after them is gated too, and not listed
_MOST_TEXT = 200_000  # characters of a graph


@dataclass
class _Board:
    folder: str = ""  # where the list is written; empty: nowhere
    script: str = ""


_BOARD = _Board()


def write_to(folder: str, script: str) -> None:
    """Called by the trial's process before its script runs."""
    _BOARD.folder, _BOARD.script = folder, script


def apply_only(
    first: int | None = None,
    *,
    among: Collection[str],
    without: Collection[str] = (),
    but: int | None = None,
    but_named: str | None = None,
) -> None:
    """Counts what belongs to the stages `among` and lets the rest through.

    Of what is counted it lets through the first so many (None: all), less the stages `without`, the application
    number `but`, and all that have the name `but_named`.
    """
    place = Path(_BOARD.folder) / applied.NAME if _BOARD.folder else None
    if place is not None:
        place.unlink(missing_ok=True)  # of the run with compilation off
    on_application(_Gate(first, frozenset(among), frozenset(without), but, but_named, place))


@dataclass
class _Gate:
    first: int | None
    among: frozenset[str]
    without: frozenset[str]
    but: int | None
    but_named: str | None
    place: Path | None
    seen: int = 0
    shown: dict[int, int] = field(default_factory=dict)  # what is under way, by identity: its number

    def begins(self, about: About) -> bool:
        if about.stage not in self.among:
            return True
        number = self.seen
        self.seen += 1
        if number < _MOST_LINES:
            self._list(number, about)
        return (
            (self.first is None or number < self.first)
            and about.stage not in self.without
            and number != self.but
            and about.name != self.but_named
        )

    def _list(self, number: int, about: About) -> None:
        row: dict[str, object] = {"stage": about.stage, "name": about.name, "line": _line(about.trace())}
        # Graphs are printed around the last one that is let through: it is the one that a search closes in on.
        if about.graph is not None and self.first is not None and number == self.first - 1:
            row["before"] = about.graph()[:_MOST_TEXT]
            self.shown[id(about)] = number
        self._write(row)

    def ended(self, about: About) -> None:
        number = self.shown.pop(id(about), None)
        if number is not None and about.graph is not None:
            self._write({"ended": number, "after": about.graph()[:_MOST_TEXT]})

    def _write(self, row: dict[str, object]) -> None:
        if self.place is not None:
            with open(self.place, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def _line(trace: str) -> int:
    """The innermost line of the judged script in a stack."""
    name = os.path.basename(_BOARD.script)
    found = [int(n) for file, n in re.findall(r'File "([^"\n]+)", line (\d+)', trace) if os.path.basename(file) == name]
    return found[-1] if found else 0
