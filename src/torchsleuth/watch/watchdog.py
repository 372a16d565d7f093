"""Notices a stage that does not end, from a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from torchsleuth.case.ir import operators

if TYPE_CHECKING:
    from torchsleuth.watch.observer import Observer, Work

_COMPILING_ONE = 0.5  # seconds an operator: a large graph may honestly compile for long
_RUNNING_ONE = 0.05
_WHILE_TUNING = 5.0  # many versions of a kernel are compiled and timed
_LOOK_EVERY = 1.0


class Watchdog:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._work: list[Work] = []
        self._since = time.monotonic()
        self._depth = 0
        self._started_in = 0  # the process whose thread it is: a fork has none of it
        self._suspects: list[tuple[Work, int]] = []  # kept, with their numbers

    def start(self) -> None:
        if self._started_in == os.getpid() or self._observer.outbox.options.hang_after <= 0:
            return
        self._started_in = os.getpid()
        self._suspects = []
        threading.Thread(target=self._watch, name="torchsleuth-watchdog", daemon=True).start()

    def entered(self, work: list[Work]) -> None:
        """A thread entered or left a stage; leaving the outermost one, or entering another graph, starts the clock."""
        self._work = work
        self._since = time.monotonic()
        if self._started_in and self._started_in != os.getpid():
            self.start()

    def over(self, work: Work) -> None:
        """It came to its end after all."""
        for suspect in [one for one in self._suspects if one[0] is work]:
            self._suspects.remove(suspect)
            self._observer.clear_suspect(suspect[1])

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            now = self._work
            work = list(now)
            if not work:
                continue
            record = next((w.record for w in reversed(work) if w.record is not None), None)
            size = operators(record.sketch.graph) if record else 0
            for_each = _COMPILING_ONE if work[-1].phase.compiling else _RUNNING_ONE
            limit = self._observer.outbox.options.hang_after + for_each * size
            if record and record.sketch.surroundings.backend.tunes:
                limit *= _WHILE_TUNING
            seconds = time.monotonic() - self._since
            if seconds > limit:
                # The outermost stage of this graph is the one with inputs.
                whole = next((w for w in work if w.record is record and w.inputs is not None), work[-1])
                number = self._observer.keep_suspect(whole, seconds)
                if number is not None:
                    self._suspects.append((whole, number))
                    if not any(one is whole for one in now):  # it ended while it was kept
                        self.over(whole)
                self._since = time.monotonic()
