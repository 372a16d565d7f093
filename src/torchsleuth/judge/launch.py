"""A command to be run under guard, and the limits it has to keep."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# From the order to the first line of the report: a worker may still be importing torch on a busy machine.
_STARTUP = 180.0


@dataclass(frozen=True)
class Limits:
    deadline: float  # seconds from one line of the report to the next
    memory: int | None  # bytes, of all processes together; None: as much as there is
    startup: float = _STARTUP


@dataclass(frozen=True)
class Launch:
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: str  # the working directory
    output: str  # the file for standard output and error
    limits: Limits | None = None
    ending: str | None = None  # where the Ending goes, for a launch with limits

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Launch:
        data = json.loads(line)
        limits = Limits(**data["limits"]) if data["limits"] else None
        return Launch(**{**data, "command": tuple(data["command"]), "limits": limits})
