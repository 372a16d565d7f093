"""What is said while the tool works: lines that stay, and a state that changes many times a minute.

On a terminal the state is one live line with a running clock; elsewhere it becomes a plain line now and then, so that a
log shows that something goes on.  Where nobody reads any more (a pipe that is closed, a terminal that is gone) it works
on in silence.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.status import Status

Say = Callable[[str], None]
_SELDOM = 20.0  # seconds between plain lines about the state


class Plain:
    """Lines with the seconds since the first one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._began: float | None = None
        self._last = 0.0

    def __call__(self, text: str) -> None:
        self._began = time.monotonic() if self._began is None else self._began
        self._last = time.monotonic()
        seconds = self._last - self._began
        with contextlib.suppress(OSError):
            print(f"torchsleuth [{seconds:5.1f}s] {text}", file=self._stream or sys.stderr, flush=True)

    def status(self, text: str) -> None:
        if time.monotonic() - self._last >= _SELDOM:
            self(text)

    def close(self) -> None:
        """Nothing to put away."""


class Live:
    """Lines that stay, and below them one that is drawn again and again."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._began: float | None = None
        self._text = ""
        self._status: Status | None = None

    def __call__(self, text: str) -> None:
        self._begin()
        self.line(text)
        self._text = text

    def line(self, text: str) -> None:
        """As it is called, but the live line does not begin: the terminal may still be somebody else's."""
        self._began = time.monotonic() if self._began is None else self._began
        with contextlib.suppress(OSError):
            self._console.print(f"  {self._seconds:5.1f}s ", text, style=None, highlight=False, markup=False, sep="")

    def status(self, text: str) -> None:
        self._begin()
        self._text = text

    def close(self) -> None:
        if self._status is not None:
            with contextlib.suppress(OSError):
                self._status.stop()

    def __rich__(self) -> str:
        """Asked for at every drawing, so the clock runs while a judgement lasts."""
        return f"{self._seconds:.0f}s {self._text}".replace("[", "\\[")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began if self._began is not None else 0.0

    def _begin(self) -> None:
        if self._status is None:
            self._began = time.monotonic() if self._began is None else self._began
            self._status = self._console.status(self)
            with contextlib.suppress(OSError):
                self._status.start()


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Progress goes to standard error: standard output is the program's, and then the summary's."""
    say = Live() if sys.stderr.isatty() else Plain()
    try:
        yield say
    finally:
        say.close()


def status_of(say: Say) -> Say:
    """Where the changing state goes, for whoever was given no more than a place for lines."""
    found: Say = getattr(say, "status", _nowhere)
    return found


def lines_of(say: Say) -> Say:
    """Where lines go while the program runs, which may print to the terminal, or ask there, at any time."""
    found: Say = getattr(say, "line", say)
    return found


def _nowhere(_: str) -> None:
    return None


def duration(seconds: float) -> str:
    """ "45 s", "3 min": about how long."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 90 else f"{round(whole / 60)} min"
