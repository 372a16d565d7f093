"""Whether anybody of a program still works: of a deadlock no Case, run alone, shows anything."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

import psutil

_WORK = 0.02  # of one processor: below it, threads only wake to look whether there is something to do
_SLACK = 0.2  # seconds of work that are nobody's
_ASKED_WITHIN = 30.0  # seconds: what was done while nobody looked for longer is not known


class Idle:
    """Watches processor time; programs that are waited for with their children: a compiler may be one."""

    def __init__(
        self, spent: Callable[[Iterable[int]], float] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spent_by = spent or processor_seconds
        self._clock = clock
        self._began: tuple[float, float] | None = None  # when it was first seen idle, and what was spent by then
        self._looked = (0.0, 0.0)

    def seconds(self, pids: Iterable[int]) -> float:
        """How long these processes have done nothing, as far as they were asked about."""
        now = self._clock(), self._spent_by(pids)
        unknown = now[0] - self._looked[0] > _ASKED_WITHIN
        # Since the last look: work after a long rest counts.  Since the first: so does a little all the time.
        if self._began is None or unknown or _works(self._looked, now) or _works(self._began, now):
            self._began = now
        self._looked = now
        return now[0] - self._began[0]


def _works(before: tuple[float, float], now: tuple[float, float]) -> bool:
    lasted, spent = now[0] - before[0], now[1] - before[1]
    return not 0 <= spent <= _SLACK + _WORK * lasted


def processor_seconds(pids: Iterable[int]) -> float:
    """Of processes and all that they have started."""
    found: dict[int, float] = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    found[process.pid] = times.user + times.system + times.children_user + times.children_system
    return sum(found.values())
