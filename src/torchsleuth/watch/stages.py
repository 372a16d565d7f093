"""What each thread of a watched process is doing now, in mapped memory: it survives a crash, because the kernel keeps
the page.

A thread that is in compiled code, or compiles, has a row, and gives it back when it leaves.  So no thread erases what
another is in the middle of, and a server with a thread for each request does not run out of rows.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PHASES = ("", "compile-forward", "compile-backward", "run-forward", "run-backward")
_ROW = struct.Struct("<IIdd")  # phase, graph, since, limit
_ROWS = 256  # threads that are in a stage at once; more are not told of


@dataclass(frozen=True)
class Stage:
    """What a thread was doing when it was last heard of."""

    phase: str
    graph: int = 0
    since: float = 0.0
    limit: float = 0.0  # seconds that it may honestly last; 0: nobody says


class Board:
    """The watched process's side.  Cheap enough for every call of a compiled graph: one write to mapped memory."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b"\0" * _ROW.size * _ROWS)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _ROW.size * _ROWS)
        self._free = list(range(_ROWS - 1, -1, -1))
        self._mine: dict[int, int] = {}  # thread -> row

    def tell(self, phase: str, graph: int, limit: float) -> None:
        """What this thread does from now on; "" is nothing.  Lists and dicts take and give one row at a time."""
        thread = threading.get_ident()
        row = self._mine.get(thread)
        if row is None:
            if not (phase and self._free):
                return
            row = self._mine[thread] = self._free.pop()
        _ROW.pack_into(self._memory, row * _ROW.size, PHASES.index(phase), graph, time.time(), limit)
        if not phase:
            self._free.append(self._mine.pop(thread))


def read(path: Path) -> tuple[Stage, ...]:
    """What threads were in the middle of, the one that began last first."""
    try:
        raw = path.read_bytes()
    except OSError:
        return ()
    whole = raw[: len(raw) // _ROW.size * _ROW.size]
    found = [
        Stage(PHASES[phase], graph, since, limit)
        for phase, graph, since, limit in _ROW.iter_unpack(whole)
        if 0 < phase < len(PHASES)
    ]
    return tuple(sorted(found, key=lambda stage: -stage.since))
