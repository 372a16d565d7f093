"""What ends the tool's work before it is done: Ctrl-C, SIGTERM, or a spent budget.

What is under way is ended, and ended again until the command is over: an engine that was opened or asked meanwhile is
reached in the next round.  The result is written all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from types import FrameType

import psutil

from torchsleuth.budget import Budget

_LOOK_EVERY = 0.1
_PATIENCE = 2.5  # seconds from the end of the work until every process below this one is killed


class Cause(Enum):
    """What ended the work."""

    CTRL_C = "Ctrl-C"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    BUDGET = "budget"


_CAUSES = {signal.SIGINT: Cause.CTRL_C, signal.SIGTERM: Cause.SIGTERM, signal.SIGHUP: Cause.SIGHUP}


class Interruption:
    """`stopped` is set at the first cause; everything given to `ends` is called from then on, again and again.

    `own_process`: everything below this process is the tool's, so what has not ended shortly after that is killed.  In
    a process of the user's nothing is killed, and a signal that asked the process to end is sent once more at the end.
    """

    def __init__(self, *, own_process: bool = True) -> None:
        self.stopped = threading.Event()
        self.cause: Cause | None = None
        self._own_process = own_process
        self._asked: Cause | None = None  # by a signal handler, which may take no lock: the main thread may hold it
        self._ends: list[Callable[[], None]] = []
        self._ending: dict[int, threading.Thread] = {}
        self._budget: Budget | None = None
        self._left = threading.Event()
        self._previous: dict[signal.Signals, object] = {}

    @property
    def said(self) -> str:
        """What ended the work, as the end of a sentence about something that is not known for it."""
        if self.cause is Cause.BUDGET and self._budget is not None:
            return f"the budget of {self._budget.seconds:g} s was spent"
        return f"stopped by {(self.cause or Cause.CTRL_C).value}"

    def begin(self, seconds: float) -> Budget:
        """The budget of this command; it begins at the first call."""
        if self._budget is None:
            self._budget = Budget.of(seconds, self.stopped)
        return self._budget

    def ends(self, end: Callable[[], None]) -> None:
        """`end` is called once the work is to end, now where it is; it may be called more than once."""
        self._ends.append(end)
        if self.stopped.is_set():
            end()

    def stop(self, cause: Cause) -> None:
        """Ends the work; the first cause is the one that is told."""
        if not self.stopped.is_set():
            self.cause = cause
            self.stopped.set()

    def __enter__(self) -> Interruption:
        for number in _CAUSES:
            with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's
                # SIGHUP is ignored under nohup.  A shell ignores SIGINT for a job in the background; who sends it
                # there means it.
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        threading.Thread(target=self._supervise, name="torchsleuth-end", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        for number, handler in self._previous.items():
            with contextlib.suppress(ValueError, TypeError):
                signal.signal(number, handler)  # type: ignore[arg-type]
        if not self._own_process and self._asked in (Cause.SIGTERM, Cause.SIGHUP):
            os.kill(os.getpid(), signal.Signals[self._asked.value])

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked is None:
            self._asked = _CAUSES[signal.Signals(number)]

    def _supervise(self) -> None:
        since = 0.0
        while not self._left.wait(_LOOK_EVERY):
            spent = self._budget is not None and time.monotonic() >= self._budget.until
            cause = self._asked or (Cause.BUDGET if spent else None)
            if cause is not None:
                self.stop(cause)
            if self.stopped.is_set():
                since = since or time.monotonic()
                self._end_all()
                if self._own_process and time.monotonic() - since > _PATIENCE:
                    _kill_below()

    def _end_all(self) -> None:
        """Each in a thread of its own: one that waits must not keep the others."""
        for place, end in enumerate(list(self._ends)):
            under_way = self._ending.get(place)
            if under_way is None or not under_way.is_alive():
                self._ending[place] = threading.Thread(target=_call, args=(end,), name="torchsleuth-ends", daemon=True)
                self._ending[place].start()


def _call(end: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # a judge was opened while judges were gone through: the next round has it
        end()


def _kill_below() -> None:
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(os.getpid()).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
