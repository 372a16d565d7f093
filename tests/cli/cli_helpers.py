"""What a command said: its exit status and both streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1]


class Cli(Protocol):
    def __call__(self, *arguments: str | Path) -> Said: ...
