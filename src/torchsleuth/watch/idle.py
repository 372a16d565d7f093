"""Whether any process of a program still works, or may be waiting for another machine: a deadlock shows in no Case."""

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


def waits_for_elsewhere(pids: Iterable[int]) -> bool:
    """Whether one of these processes, or what they have started, is connected to another machine.

    Also where that cannot be seen.
    """
    here = {"::1", *(_plain(a.address) for addresses in psutil.net_if_addrs().values() for a in addresses)}
    try:
        family = {process.pid: process for pid in pids for process in _with_descendants(pid)}
        ends = [_plain(end) for process in family.values() for end in _other_ends(process)]
    except psutil.Error:
        return True
    return any(end not in here and not end.startswith("127.") for end in ends)


def _with_descendants(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _other_ends(process: psutil.Process) -> list[str]:
    try:
        connected = getattr(process, "net_connections", None) or process.connections  # the older name
        return [one.raddr.ip for one in connected("inet") if one.status == psutil.CONN_ESTABLISHED and one.raddr]
    except psutil.NoSuchProcess:
        return []


def _plain(address: str) -> str:
    """Without the interface, and as IPv4 where it stands for such an address."""
    return address.partition("%")[0].removeprefix("::ffff:")


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
