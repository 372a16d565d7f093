"""How long the tool may work once the program has ended.

One Budget is made for a run and handed down; whatever runs after the program ends at it.  Standard library alone.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    seconds: float  # as it was given
    until: float  # of time.monotonic
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @staticmethod
    def of(seconds: float, cancelled: threading.Event | None = None) -> Budget:
        """A budget that begins now; `cancelled`, once set, ends it early."""
        return Budget(seconds, time.monotonic() + seconds, cancelled or threading.Event())

    def left(self) -> float:
        """Seconds until it is spent: 0 where it is over."""
        return 0.0 if self.cancelled.is_set() else max(0.0, self.until - time.monotonic())

    def over(self) -> bool:
        return self.left() <= 0.0

    def share(self, parts: int) -> Budget:
        """One of `parts` equal parts of what is left, beginning now; cancelled together with the whole."""
        return Budget.of(self.left() / max(1, parts), self.cancelled)
