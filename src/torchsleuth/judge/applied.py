"""What the compiler did to the graphs of a trial, one thing after the other, as the trial's process wrote it down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

NAME = "applied.jsonl"


@dataclass(frozen=True)
class Applied:
    """One application of the compiler; its number is its place among all that the compiler came to."""

    stage: str
    name: str
    line: int = 0  # of the script that was judged; 0: not known
    before: str = ""  # the graph around the last one that was let through
    after: str = ""


def to_json(applied: Iterable[Applied]) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(one).items() if value} for one in applied]


def from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[Applied, ...]:
    return tuple(
        Applied(
            str(row["stage"]),
            str(row["name"]),
            int(row.get("line", 0)),
            str(row.get("before", "")),
            str(row.get("after", "")),
        )
        for row in rows
    )


def read(folder: Path) -> tuple[Applied, ...]:
    """What was written until the process ended, however it ended."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    found: list[Applied] = []
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break  # cut off by a kill
        if "ended" not in row:
            found += from_json([row])
        elif row["ended"] < len(found):  # its own row may be one that was cut off
            found[row["ended"]] = replace(found[row["ended"]], after=row["after"])
    return tuple(found)
