"""Notices a stage that does not end, from a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from torchsleuth.case.ir import operators

if TYPE_CHECKING:
    from torchsleuth.watch.observer import Observer, Work

_SECONDS_AN_OPERATOR = 0.5  # a large graph may honestly compile for long
_LOOK_EVERY = 1.0


class Watchdog:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._work: list[Work] = []
        self._since = time.monotonic()
        self._depth = 0
        self._started = False

    def start(self) -> None:
        if self._started or self._observer.outbox.options.hang_after <= 0:
            return
        self._started = True
        threading.Thread(target=self._watch, name="torchsleuth-watchdog", daemon=True).start()

    def entered(self, work: list[Work]) -> None:
        """A thread entered or left a stage; leaving the outermost one, or entering another graph, starts the clock."""
        self._work = work
        self._since = time.monotonic()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            work = list(self._work)
            if not work:
                continue
            record = next((w.record for w in reversed(work) if w.record is not None), None)
            size = operators(record.sketch.graph) if record else 0
            limit = self._observer.outbox.options.hang_after + _SECONDS_AN_OPERATOR * size
            seconds = time.monotonic() - self._since
            if seconds > limit:
                # The outermost stage of this graph is the one with inputs.
                whole = next((w for w in work if w.record is record and w.inputs is not None), work[-1])
                self._observer.keep_suspect(whole, seconds)
                self._since = time.monotonic()
