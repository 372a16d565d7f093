"""The smaller scripts on the way: each failing Case that is smaller stands in checkpoints/ as a file named by its size.

They were judged, not verified; the best of them is verified and takes the place of repro.py when that is due.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.case.program import render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.errors import OutputUnwritable
from torchsleuth.judge.bench import Bench, Way

FOLDER = "checkpoints"
_MOST = 12  # files; the largest go first
_MOST_DATA = 64 * 2**20  # bytes; a checkpoint is a convenience, not a copy of the weights
_PATIENCE = 10.0  # seconds without anything verified, where something smaller is known
_LONG = 30.0  # where nothing is
_WORTH = 8.0  # times what the last verification took, to work on before the next


class Checkpoints:
    def __init__(self, bench: Bench, say: Callable[[str], None], home: Path) -> None:
        self._home = home
        self._bench = bench
        self._say = say
        self._cases: dict[int, tuple[Case, Way]] = {}
        self._writes = True

    def write(self, case: Case, way: Way, text: str) -> None:
        size = operators(case.graph)
        self._cases[size] = case, way
        if not self._writes:
            return
        place = self._home / FOLDER
        stem = f"repro_{size}_op{'s' * (size != 1)}"
        try:
            if DATA_FILE in text and not self._with_data(case, way, place / f"{stem}_data.pt"):
                return
            files.write_text(place / f"{stem}.py", text.replace(DATA_FILE, f"{stem}_data.pt"))
            for gone in sorted(self._cases, reverse=True)[:-_MOST]:
                for old in place.glob(f"repro_{gone}_op*"):
                    old.unlink(missing_ok=True)
        except (OutputUnwritable, OSError) as error:
            self._writes = False
            self._say(f"no checkpoints are written: {error}")

    def _with_data(self, case: Case, way: Way, target: Path) -> bool:
        sizes = [s.nbytes for s in case.storages if s.kept]
        if sum(sizes) > _MOST_DATA:
            self._writes = False
            self._say(f"no checkpoints are written: each would hold {sum(sizes) >> 20} MB of data")
            return False
        with files.replacing(target) as temporary:
            rendering = render(case, way.form, data=True)
            problem = self._bench.write_data(rendering, way.home, temporary)
        if problem:
            self._say(f"no checkpoint: {problem}")
        return not problem

    def larger_than(self, smallest: Case) -> list[tuple[Case, Way]]:
        """Two to fall back on where the smallest does not fail in a fresh process: the next, and a middle one."""
        sizes = [size for size in sorted(self._cases) if size > operators(smallest.graph)]
        return [self._cases[size] for size in dict.fromkeys([*sizes[:1], *sizes[len(sizes) // 2 :][:1]])]


class Pace:
    """When to verify on the way: often enough that little is lost on Ctrl-C, seldom enough to cost little.

    The first is not verified before something may have become of it: of the whole, something smaller.  What follows
    must be `times` smaller than what was tried last.
    """

    def __init__(self, cost: float, whole: int, times: float = 2.0, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._cost = cost
        self._whole = whole  # operators
        self._times = times
        self._in_place: int | None = None  # operators of what was tried last; None: nothing was
        self._since = now()

    def due(self, ops: int) -> bool:
        waited = self._now() - self._since
        if self._in_place is None:
            return waited >= (_PATIENCE if ops < self._whole else max(_LONG, self._cost))
        return self._times * ops <= self._in_place and waited >= _WORTH * self._cost

    @contextlib.contextmanager
    def spending(self, ops: int) -> Iterator[None]:
        """While a Case of so many operators is verified."""
        began = self._now()
        try:
            yield
        finally:
            self.spent(ops, self._now() - began)

    def spent(self, ops: int, seconds: float) -> None:
        """A Case of so many operators was verified in so many seconds."""
        self._in_place = ops
        self._since = self._now()
        self._cost = max(1.0, seconds)
