"""Whether anybody of a program still works: of a deadlock no Case, run alone, shows anything."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

import psutil

_WORK = 0.02  # of one processor: below it, threads only wake to look whether there is something to do
_SLACK = 0.2  # seconds of work that are nobody's


class Idle:
    """Watches processor time; programs that are waited for with their children: a compiler may be one."""

    def __init__(
        self, spent: Callable[[Iterable[int]], float] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spent_by = spent or processor_seconds
        self._clock = clock
        self._since: float | None = None
        self._spent = 0.0

    def seconds(self, pids: Iterable[int]) -> float:
        """How long these processes have done nothing, as far as they were asked about."""
        now, spent = self._clock(), self._spent_by(pids)
        lasted = now - self._since if self._since is not None else 0.0
        if self._since is None or not 0 <= spent - self._spent <= _SLACK + _WORK * lasted:
            self._since, self._spent, lasted = now, spent, 0.0
        return lasted


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
