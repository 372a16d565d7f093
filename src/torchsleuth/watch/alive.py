"""Whether a process that once told of itself is still there: its number alone may be another's by now.

Standard library alone: the mark is made in watched processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_STARTED = 19  # of what follows the command in /proc/PID/stat: ticks since the machine was started
_DEAD = {b"Z", b"X"}


def mark() -> dict[str, Any] | None:
    """Of this process; None where the system does not say."""
    stat = _stat("self")
    return {"pid": os.getpid(), "started": int(stat[_STARTED]), "numbers": _numbers()} if stat else None


def gone(life: Mapping[str, Any] | None) -> bool:
    """Only where that is certain: of another container, or of a system that does not say, nobody knows."""
    if not life or life.get("numbers") != _numbers():
        return False
    stat = _stat(str(life.get("pid")))
    return stat is None or stat[0] in _DEAD or int(stat[_STARTED]) != life.get("started")


def _stat(process: str) -> list[bytes] | None:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The command may hold spaces and parentheses; the fields begin after the last one.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > _STARTED else None


def _numbers() -> str:
    """In which numbers of processes a number is meant: a container has its own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
