"""What the tests of the judge look at beside outcomes: which processes are left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from torchsleuth.case.failure import Phase
from torchsleuth.judge import Outcome


class Ask(Protocol):
    def __call__(
        self,
        source: str,
        *,
        phase: Phase = Phase.RUN_FORWARD,
        deadline: float = 60.0,
        memory_limit: int | None = None,
        cache_runs: int = 1,
    ) -> Outcome: ...


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def processes_with(mark: str) -> list[int]:
    """The processes whose command line holds `mark`, other than this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if mark in command and alive(int(entry.name)):
                found.append(int(entry.name))
    return found
