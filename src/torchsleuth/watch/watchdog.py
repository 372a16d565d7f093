"""Notices a stage that does not end, from a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchsleuth.case.ir import operators
from torchsleuth.watch.patience import patience

if TYPE_CHECKING:
    from torchsleuth.watch.capture import Record
    from torchsleuth.watch.observer import Observer, Work

_LOOK_EVERY = 1.0


class Watchdog:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._under_way: dict[int, tuple[list[Work], float]] = {}  # thread -> its stages, and since when
        self._started_in = 0  # the process whose thread it is: a fork has none of it
        self._suspects: list[tuple[Work, int]] = []  # kept, with their numbers

    def start(self) -> None:
        if self._started_in == os.getpid() or self._observer.outbox.options.hang_after <= 0:
            return
        if self._started_in:  # of the threads, a fork has the one that forked
            mine = threading.get_ident()
            self._under_way = {thread: work for thread, work in self._under_way.items() if thread == mine}
        self._started_in = os.getpid()
        self._suspects = []
        threading.Thread(target=self._watch, name="torchsleuth-watchdog", daemon=True).start()

    def entered(self, work: list[Work]) -> None:
        """This thread entered or left a stage: its clock starts anew."""
        if work:
            self._under_way[threading.get_ident()] = work, time.monotonic()
        else:
            self._under_way.pop(threading.get_ident(), None)
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
            for thread in list(self._under_way):
                self._look_at(thread)

    def _look_at(self, thread: int) -> None:
        now, since = self._under_way.get(thread, ([], 0.0))
        work = list(now)
        if not work:
            return
        seconds = time.monotonic() - since
        if seconds <= limit_of(work[-1], work, self._observer.outbox.options.hang_after):
            return
        record = _record(work)
        # The outermost stage of this graph is the one with inputs.
        whole = next((w for w in work if w.record is record and w.inputs is not None), work[-1])
        number = self._observer.keep_suspect(whole, seconds)
        if number is not None:
            self._suspects.append((whole, number))
            if not any(one is whole for one in now):  # it ended while it was kept
                self.over(whole)
        if thread in self._under_way:
            self._under_way[thread] = now, time.monotonic()


def limit_of(stage: Work, work: Sequence[Work], least: float) -> float:
    """Seconds that the innermost stage of a thread may honestly last."""
    record = _record(work)
    if record is None:
        return least
    limit = record.limits.get(stage.phase)
    if limit is None:  # once: this is asked at every call of a compiled graph
        tunes = record.sketch.surroundings.backend.tunes
        limit = record.limits[stage.phase] = patience(least, stage.phase, operators(record.sketch.graph), tunes=tunes)
    return limit


def _record(work: Sequence[Work]) -> Record | None:
    return next((w.record for w in reversed(work) if w.record is not None), None)
