"""The clock of a recording and of a replay: it stands still, so that time decides nothing.

It runs only while the user's program does: whoever watches for hangs has to wait.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class StandingClock:
    def __init__(self) -> None:
        self._at = 0.0
        self._since: float | None = None

    def now(self) -> float:
        return self._at + (time.monotonic() - self._since if self._since is not None else 0.0)

    def advance(self, seconds: float) -> None:
        self._at += seconds

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._at, self._since = self.now(), None
