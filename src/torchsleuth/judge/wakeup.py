"""Sleep until a signal, a file descriptor, or a time, whichever comes first.

A warden sleeps most of its life; polling alone would add its interval to every judgement.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from types import FrameType


class Wakeup:
    """Wakes on SIGCHLD and SIGTERM; remembers whether SIGTERM came."""

    def __init__(self) -> None:
        self.told_to_stop = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._stop)

    def wait(self, seconds: float, files: Sequence[int] = ()) -> list[int]:
        """The files of `files` that can be read now."""
        ready, _, _ = select.select([self._read, *files], [], [], max(0.0, seconds))
        if self._read in ready:
            ready.remove(self._read)
            while _drained(self._read):
                pass
        return ready

    def close(self) -> None:
        """Back to the signals of a fresh process; also for the child after a fork."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.told_to_stop = True


def _drained(file: int) -> bool:
    try:
        return len(os.read(file, 512)) == 512
    except BlockingIOError:
        return False
