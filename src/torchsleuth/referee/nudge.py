"""How far the results of a program's graphs are moved in eager, and where the values are recorded.

Standard library alone.  It travels to the backend `sleuth_nudged` in an environment variable: a backend that is forced
on a program takes no options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "TORCHSLEUTH_NUDGE"
_FAR = 16


@dataclass(frozen=True)
class Nudge:
    """seed: of the directions; units: in the last place, 0 for none; record: the folder for recorded values, or ""."""

    seed: int = 0
    units: int = _FAR
    record: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def read(environment: Mapping[str, str]) -> Nudge:
        text = environment.get(VARIABLE, "")
        return Nudge(**json.loads(text)) if text else Nudge()


@dataclass(frozen=True)
class Step:
    """One result of one operator of a graph, in the order in which they were computed.

    sample, inputs: evenly spaced elements of the result and of the tensors that it was made from.
    unit: the last place of the result's type relative to the value, 0 for integers and bools.
    """

    operator: str
    place: str  # "file:line: code" in the program, or ""
    unit: float
    sample: tuple[float, ...]
    inputs: tuple[float, ...] = ()


def read_steps(folder: Path) -> list[Step]:
    """Of all processes, each in its order."""
    steps: list[Step] = []
    for file in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                operator, place, unit, sample, inputs = json.loads(line)
            except ValueError:
                break  # the line that the process died in
            steps.append(Step(operator, place, unit, tuple(sample), tuple(inputs)))
    return steps
