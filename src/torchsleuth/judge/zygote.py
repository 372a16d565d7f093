"""The warm parent of forked trials: `python -m torchsleuth.judge.zygote [cuda]`.

Reads from standard input one JSON line per request (`{"id": 1, "order": {...}}` or `{"cancel": true}`) and answers on
standard output (`{"ready": true}`, `{"ended": 1}`).  For each order it forks a warden, which forks the trial: a fresh
process for each stage, so that what the eager run leaves behind (registered operators, skipped frames, random state)
cannot touch the compiled one.  The warden adopts orphans, so nothing a script starts outlives it.  When standard input
closes, the client is done or dead, and everything here ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from torchsleuth.judge import child, warm
from torchsleuth.judge.descendants import adopt_orphans, die_with_parent, kill_descendants
from torchsleuth.judge.launch import Limits
from torchsleuth.judge.order import Cause, Ending, Order, Stage, read_report
from torchsleuth.judge.redirect import redirect
from torchsleuth.judge.wakeup import Wakeup
from torchsleuth.judge.watching import watch

_CUDA_STARTS = 60  # seconds, at most, that CUDA may take to start in a child
_GRACE = 5.0  # seconds that wardens get to clean up when the client is gone


class Zygote:
    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._wakeup = Wakeup()
        self._unread = b""
        self._wardens: dict[int, int] = {}  # process id to the request's id

    def serve(self) -> None:
        self._answer({"ready": True})
        while not self._wakeup.told_to_stop:
            if self._wakeup.wait(60.0, [self._requests]):
                data = os.read(self._requests, 1 << 16)
                if not data:
                    break
                *lines, self._unread = (self._unread + data).split(b"\n")
                for line in lines:
                    self._handle(json.loads(line))
            self._reap()
        self._stop_wardens()
        self._wakeup.wait(0.0)
        self._drain()

    def _handle(self, request: dict[str, Any]) -> None:
        if request.get("cancel"):
            self._stop_wardens()
            return
        order = Order.from_line(json.dumps(request["order"]))
        parent = os.getpid()
        pid = fork(lambda: self._become_warden(order, parent))
        self._wardens[pid] = request["id"]

    def _become_warden(self, order: Order, parent: int) -> None:
        self._wakeup.close()
        os.close(self._requests)
        os.close(self._answers)
        oversee(order, parent)

    def _reap(self) -> None:
        while self._wardens:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in self._wardens:
                self._answer({"ended": self._wardens.pop(pid)})

    def _drain(self) -> None:
        """Let the wardens end, then kill what is left."""
        waits = int(_GRACE / 0.05)
        while self._wardens and waits:
            self._wakeup.wait(0.05)
            pid, _ = os.waitpid(-1, os.WNOHANG)
            self._wardens.pop(pid, None)
            waits -= 1
        kill_descendants()

    def _stop_wardens(self) -> None:
        for pid in self._wardens:  # not reaped yet, so the number is still theirs
            os.kill(pid, signal.SIGTERM)

    def _answer(self, answer: dict[str, Any]) -> None:
        os.write(self._answers, json.dumps(answer).encode() + b"\n")


def fork(action: Callable[[], None]) -> int:
    """The child's process id.  The child runs `action` and ends; it never comes back into the parent's stack."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 70  # EX_SOFTWARE, unless `action` gets to its end
    try:
        action()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def oversee(order: Order, parent: int) -> None:
    """A warden's life: the stages of one order, each in a process of its own, and the ending of the last."""
    os.setsid()
    wakeup = Wakeup()
    die_with_parent(signal.SIGTERM, parent)
    adopt_orphans()
    limits = Limits(order.deadline, order.memory_limit)
    ending = Ending(Cause.CANCELLED)
    for stage in order.stages:
        if wakeup.told_to_stop:
            ending = Ending(Cause.CANCELLED)
            break
        pid = fork(partial(_become_trial, order.only(stage), wakeup, os.getpid()))
        ending = watch(pid, limits, order.report, wakeup, lambda: wakeup.told_to_stop)
        events = read_report(order.report)
        if not events or events[-1]["event"] != f"{Stage.EAGER.value}-passed":
            break
    ending.write(order.ending)


def _become_trial(order: Order, wakeup: Wakeup, warden: int) -> NoReturn:
    wakeup.close()
    os.setsid()
    die_with_parent(signal.SIGKILL, warden)
    redirect(order.output)
    child.serve(order)


def _children_can_use_cuda() -> bool:
    """Tried, since it depends on the driver and on whoever touched CUDA while torch was imported."""

    def attempt() -> None:
        signal.alarm(_CUDA_STARTS)
        warm.start_cuda()

    _, status = os.waitpid(fork(attempt), 0)
    return status == 0


def main() -> None:
    # The protocol moves away from 0 and 1, which modules that are imported here may read and print to.
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    adopt_orphans()
    cuda = "cuda" in sys.argv[1:]
    warm.warm_up(forks=True, cuda=cuda)
    if cuda and not _children_can_use_cuda():
        sys.exit("CUDA cannot be started in a process that is forked from this one")
    if not cuda and not warm.headers_built():
        os.waitpid(fork(warm.build_headers), 0)
    Zygote(requests, answers).serve()


if __name__ == "__main__":
    main()
