"""Whether anybody still works."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

from torchsleuth.watch.idle import Idle, processor_seconds


class Program:
    """Time passes, and some of it is worked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.worked = 7.0

    def after(self, seconds: float, work: float) -> None:
        self.now += seconds
        self.worked += work

    def idle(self) -> Idle:
        return Idle(self._spent, lambda: self.now)

    def _spent(self, pids: Iterable[int]) -> float:
        assert list(pids) == [1]
        return self.worked


def test_threads_that_only_wake_up_do_not_work() -> None:
    program = Program()
    idle = program.idle()
    assert idle.seconds([1]) == 0
    for _ in range(60):
        program.after(1.0, 0.001)
        lasted = idle.seconds([1])
    assert lasted == 60


def test_work_begins_it_anew() -> None:
    program = Program()
    idle = program.idle()
    idle.seconds([1])
    for _ in range(25):
        program.after(2.0, 0.0)
        lasted = idle.seconds([1])
    assert lasted == 50
    program.after(2.0, 1.9)
    assert idle.seconds([1]) == 0
    program.after(3.0, 0.0)
    assert idle.seconds([1]) == 3


def test_a_slow_but_steady_worker_is_never_idle() -> None:
    program = Program()
    idle = program.idle()
    for _ in range(200):
        program.after(2.0, 0.2)
        assert idle.seconds([1]) <= 4


def test_a_process_that_is_gone_begins_it_anew() -> None:
    program = Program()
    idle = program.idle()
    idle.seconds([1])
    program.after(20.0, -3.0)
    assert idle.seconds([1]) == 0


def test_a_little_work_after_a_very_long_rest_begins_it_anew() -> None:
    program = Program()
    idle = program.idle()
    for _ in range(500):
        program.after(2.0, 0.0)
        idle.seconds([1])
    program.after(2.0, 1.0)
    assert idle.seconds([1]) == 0


def test_what_was_while_nobody_looked_is_not_known() -> None:
    program = Program()
    idle = program.idle()
    idle.seconds([1])
    program.after(600.0, 0.0)
    assert idle.seconds([1]) == 0


def test_children_are_counted_and_who_is_gone_is_not() -> None:
    before = processor_seconds([os.getpid()])
    subprocess.run([sys.executable, "-c", "for i in range(3_000_000): i * i"], check=True)
    assert processor_seconds([os.getpid()]) > before
    assert processor_seconds([2**22 + 1]) == 0
