"""Watch over one process of a trial until it ends, or until it has to be ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from torchsleuth.judge.descendants import kill_descendants, resident
from torchsleuth.judge.launch import Limits
from torchsleuth.judge.order import Cause, Ending
from torchsleuth.judge.wakeup import Wakeup

_INTERVAL = 0.1


def watch(pid: int, limits: Limits, report: str | None, wakeup: Wakeup, stopped: Callable[[], bool]) -> Ending:
    """Wait for `pid`, a child of this process.  When it returns, no descendant of this process is left.

    Without a report the deadline holds from the start.
    """
    began = lap = time.monotonic()
    lines = 0 if report else 1
    peak = 0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        now = time.monotonic()
        if done:
            kill_descendants()
            return Ending(Cause.EXITED, os.waitstatus_to_exitcode(status), now - began, peak)
        if report and (told := _line_count(report)) != lines:
            lines, lap = told, now
        held = resident(os.getpid()) if limits.memory is not None else 0
        peak = max(peak, held)
        cause = _reason_to_end(stopped(), bool(lines), now - lap, held, limits)
        if cause is not None:
            kill_descendants()
            return Ending(cause, 0, now - began, peak)
        wakeup.wait(_INTERVAL)


def _reason_to_end(stopped: bool, began: bool, silent: float, held: int, limits: Limits) -> Cause | None:
    if stopped:
        return Cause.CANCELLED
    if limits.memory is not None and held > limits.memory:
        return Cause.MEMORY
    if silent > (limits.deadline if began else limits.startup):
        return Cause.DEADLINE if began else Cause.NEVER_BEGAN
    return None


def _line_count(path: str) -> int:
    try:
        return Path(path).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
