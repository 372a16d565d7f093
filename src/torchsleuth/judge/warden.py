"""A process that stands between the client and a command it has to run: `python -m torchsleuth.judge.warden`.

It reads a Launch from standard input, starts the command in a session of its own, and watches over it.  A Launch
without limits is a worker that warms up first: its deadline begins with the Order, which is the next line and is
handed on.  When standard input closes, the client is done or dead, and the command and all it started is killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from typing import IO

from torchsleuth.judge.descendants import adopt_orphans, die_with_parent, kill_descendants
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.order import Cause, Ending, Order
from torchsleuth.judge.wakeup import Wakeup
from torchsleuth.judge.watching import watch


class _Input:
    """Lines from a file descriptor, and whether the other side has closed it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._unread = b""
        self.closed = False

    def line(self) -> bytes | None:
        """The next line; None when the input closed before it was complete."""
        while b"\n" not in self._unread and not self.closed:
            self._read()
        line, newline, self._unread = self._unread.partition(b"\n")
        return line if newline else None

    def has_closed(self) -> bool:
        while not self.closed and select.select([self._file], [], [], 0)[0]:
            self._read()
        return self.closed

    def _read(self) -> None:
        data = os.read(self._file, 1 << 16)
        self._unread += data
        self.closed = not data


def main() -> None:
    requests = _Input(0)
    line = requests.line()
    if line is None:
        return
    launch = Launch.from_line(line)
    adopt_orphans()
    wakeup = Wakeup()
    process = _start(launch)
    try:
        if launch.limits is not None and launch.ending is not None:
            _oversee(process, launch.limits, None, launch.ending, wakeup, requests)
        elif (line := requests.line()) is not None:
            order = Order.from_line(line)
            _hand_on(line, process.stdin)
            _oversee(process, Limits(order.deadline, order.memory_limit), order.report, order.ending, wakeup, requests)
    finally:
        kill_descendants()


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    warden = os.getpid()
    with open(launch.output, "ab") as output:
        return subprocess.Popen(
            launch.command,
            env=launch.environment,
            cwd=launch.folder,
            stdin=subprocess.DEVNULL if launch.limits else subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL, warden),  # this process has one thread
        )


def _hand_on(line: bytes, pipe: IO[bytes] | None) -> None:
    assert pipe is not None
    try:
        pipe.write(line + b"\n")
        pipe.close()
    except BrokenPipeError:
        return  # the worker died while it warmed up; `watch` will find that


def _oversee(
    process: subprocess.Popen[bytes],
    limits: Limits,
    report: str | None,
    ending: str,
    wakeup: Wakeup,
    requests: _Input,
) -> None:
    def stopped() -> bool:
        return wakeup.told_to_stop or requests.has_closed()

    if stopped():
        Ending(Cause.CANCELLED).write(ending)
    else:
        watch(process.pid, limits, report, wakeup, stopped).write(ending)


if __name__ == "__main__":
    main()
