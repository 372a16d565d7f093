"""The referee's verdict as a line of text: how it leaves the process that it was found in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MARK = "torchsleuth-referee: "
_FOR_PEOPLE = re.compile(r"([^\s:]+): [\w-]+: ")  # a path, how it is wrong, by how much
_PLAIN_ENOUGH = 1e-3  # so large an error no tolerance of torch.testing passes
_QUIET_ENOUGH = 1e-6  # so small a noise none of them minds
_LEAST_NOISE = 1e-9


@dataclass(frozen=True)
class Told:
    """One wrong value: its path, both errors relative to its size, and that size."""

    path: str
    how: str
    compiled_error: float
    eager_error: float
    scale: float
    nans: bool = True  # whether any of eager's results, this or another, holds one


def line(rows: Sequence[dict[str, Any]]) -> str:
    return MARK + json.dumps(list(rows))


def read(text: str) -> list[Told]:
    """What a verdict's text tells; nothing where it is none."""
    found = next((one for one in text.splitlines() if one.startswith(MARK)), "")
    try:
        rows = json.loads(found.removeprefix(MARK)) if found else []
        return [
            Told(
                str(r["path"]),
                str(r["how"]),
                float(r["compiled_error"]),
                float(r["eager_error"]),
                float(r["scale"]),
                r.get("nans") is not False,
            )
            for r in rows
        ]
    except (ValueError, KeyError, TypeError):
        return []


def wrong_paths(text: str) -> list[str]:
    """Which results a verdict's text calls wrong, written for the judge or for people."""
    rows = [row.path for row in read(text)]
    return rows or [found.group(1) for line in text.splitlines() if (found := _FOR_PEOPLE.match(line))]


def tolerance(rows: Sequence[Told]) -> tuple[float, float] | None:
    """rtol and atol that lie between the noise and the error; None where those of torch.testing do."""
    values = [r for r in rows if r.how == "values" and r.scale and math.isfinite(r.compiled_error)]
    if not values or len(values) < len(rows):
        return None
    worst = max(values, key=lambda r: r.compiled_error)
    if worst.compiled_error > _PLAIN_ENOUGH and worst.eager_error < _QUIET_ENOUGH:
        return None
    limit = math.sqrt(worst.compiled_error * max(worst.eager_error, _LEAST_NOISE))
    return limit, limit * worst.scale
