"""The processes below a process: found, measured, killed.

Standard library alone, because it runs under the program's interpreter.  A descendant that leaves its process group or
session, or whose parent has died, is still found: wardens make themselves the reaper of their descendants
(PR_SET_CHILD_SUBREAPER), so an orphan's parent is the warden and never init.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    resident: int  # bytes


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Ask for a signal when the parent dies.  `parent` is who it was: it may be gone before the request is made."""
    _prctl(_PR_SET_PDEATHSIG, int(number))
    if sys.platform == "linux" and os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def descendants(root: int) -> list[Process]:
    """All living processes below `root`, without itself; zombies are dead."""
    children: dict[int, list[Process]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def resident(root: int) -> int:
    """Bytes of memory held by all descendants of `root`; what they share is counted once for each."""
    return sum(process.resident for process in descendants(root))


def kill_descendants(patience: float = 5.0) -> bool:
    """Kill and reap all that is below this process, however fast it forks; whether nothing is left."""
    until = time.monotonic() + patience
    while True:
        left = descendants(os.getpid())
        for process in left:
            _kill(process.pid)
        _reap()
        if not left:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.005)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself in between
    except PermissionError:
        return  # another user's, such as sudo's: the others are to be killed all the same


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _processes() -> Iterator[Process]:
    return _from_proc() if sys.platform == "linux" else _from_ps()


def _from_proc() -> Iterator[Process]:
    page = os.sysconf("SC_PAGE_SIZE")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command may hold spaces and parentheses; the fields begin after the last one.
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # some systems hide what is another user's
            continue
        if fields and fields[0] not in (b"Z", b"X"):
            yield Process(int(name), int(fields[1]), int(fields[21]) * page)


def _from_ps() -> Iterator[Process]:
    table = subprocess.run(["ps", "-axo", "pid=,ppid=,rss=,stat="], capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        pid, parent, kilobytes, state = line.split(None, 3)
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), int(kilobytes) * 1024)
