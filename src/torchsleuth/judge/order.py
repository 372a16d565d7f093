"""What the processes of a judge say to each other.

An Order goes down (client, zygote or warden, child).  Up come two files in the order's `work` folder: the child's
report, one JSON line per step, appended as it happens; and the warden's Ending, written once when every process of the
trial is gone.  Files, not pipes: they can be read whatever died in between.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Phase


class Stage(str, Enum):
    EAGER = "eager"
    COMPILED = "compiled"


@dataclass(frozen=True)
class Order:
    work: str  # folder of this order alone: report, ending, output
    script: str
    phase: Phase
    stages: tuple[Stage, ...]
    cache: str  # folder for Inductor's and Triton's caches
    deadline: float  # seconds for each stage
    memory_limit: int

    @property
    def source(self) -> str:
        """The script again: trials may share a folder, and the file there may be another's by now."""
        return os.path.join(self.work, "source.py")

    @property
    def report(self) -> str:
        return os.path.join(self.work, "report.jsonl")

    @property
    def ending(self) -> str:
        return os.path.join(self.work, "ending.json")

    @property
    def output(self) -> str:
        return os.path.join(self.work, "output.txt")

    def only(self, stage: Stage) -> Order:
        return replace(self, stages=(stage,))

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes | str) -> Order:
        data = json.loads(line)
        stages = tuple(Stage(stage) for stage in data.pop("stages"))
        return Order(**{**data, "phase": Phase(data["phase"]), "stages": stages})


class Cause(str, Enum):
    """Why the process of a trial ended."""

    EXITED = "exited"
    DEADLINE = "deadline"
    MEMORY = "memory"
    CANCELLED = "cancelled"
    NEVER_BEGAN = "never-began"


@dataclass(frozen=True)
class Ending:
    cause: Cause
    status: int = 0  # exit status, or minus the signal's number
    seconds: float = 0.0
    peak_memory: int = 0

    def write(self, path: str) -> None:
        # Renamed into place: a reader sees all of it or nothing.
        Path(path + ".part").write_text(json.dumps(asdict(self)))
        os.replace(path + ".part", path)

    @staticmethod
    def read(path: str) -> Ending | None:
        try:
            data = json.loads(Path(path).read_text())
        except FileNotFoundError:
            return None
        return Ending(**{**data, "cause": Cause(data["cause"])})


def read_report(path: str) -> list[dict[str, Any]]:
    """The events that were reported in full; a line that was cut off by a kill is left out."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    events: list[dict[str, Any]] = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def read_tail(path: str, size: int = 10_000) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - size))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
