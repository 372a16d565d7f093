"""Ctrl-C, while something of ours is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress


class Interruption:
    """Ctrl-C ends what is under way at once; what was written stays, and the result is written all the same."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._ends: list[Callable[[], None]] = []
        self._previous: object = None

    def ends(self, end: Callable[[], None]) -> None:
        """`end` is called at each Ctrl-C from now on; at once where there was one."""
        self._ends.append(end)
        if self.stopped.is_set():
            end()

    def __enter__(self) -> Interruption:
        with suppress(ValueError):  # not the main thread: signals are somebody else's
            self._previous = signal.signal(signal.SIGINT, self._stop)
        return self

    def _stop(self, *_: object) -> None:
        self.stopped.set()
        for end in self._ends:
            # The main thread, which handles signals, may hold what the end needs.
            threading.Thread(target=end, name="ctrl-c", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]
