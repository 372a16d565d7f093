"""The Judge for CUDA and for systems where fork is unsafe: a pool of warm processes, each for one trial."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchsleuth.errors import JudgeBroken
from torchsleuth.judge.conduct import Conductor
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.order import Cause, Ending, Order, read_report, read_tail

_PATIENCE = 5.0
_MOST_FALSE_STARTS = 3
_MOST_READY = 6  # each holds some memory of the device


class SpawnedJudge(Conductor):
    """Workers warm up while others judge: some wait ready, and each that is taken is replaced at once.

    To warm up takes longer than most trials, so the more cores there are, the more wait.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        path: Sequence[str] = (),
        jobs: int = 2,
        *,
        scratch: Path,
        cuda: bool = False,
    ) -> None:
        super().__init__(scratch, jobs)
        self._python = python
        self._cuda = cuda
        self._environment = with_torchsleuth(environment, path)
        self._pool = threading.Lock()
        self._closed = False
        self._false_starts = 0  # orders in a row whose worker died before it began
        self._waiting: deque[Guarded] = deque()
        self._working: set[Guarded] = set()
        self._waiting.extend(self._spawn() for _ in range(max(jobs, min(_MOST_READY, (os.cpu_count() or 1) // 2))))

    @property
    def log(self) -> str:
        return str(self.scratch / "workers.log")

    def close(self) -> None:
        with self._pool:
            self._closed = True
            idle = list(self._waiting)
            self._waiting.clear()
        for worker in idle:
            worker.stop()
        self.cancel()
        for worker in idle:
            worker.wait(_PATIENCE)
        super().close()

    def _perform(self, order: Order) -> None:
        worker = self._take()
        try:
            worker.give(order)
            worker.wait()
        finally:
            with self._pool:
                self._working.discard(worker)
        self._count_false_starts(order)

    def _end_all(self) -> None:
        with self._pool:
            working = list(self._working)
        for worker in working:
            worker.stop()
        for worker in working:
            worker.wait(_PATIENCE)

    def _take(self) -> Guarded:
        with self._pool:
            worker = self._waiting.popleft() if self._waiting else self._spawn()
            if not self._closed:
                self._waiting.append(self._spawn())
            self._working.add(worker)
            return worker

    def _spawn(self) -> Guarded:
        command = (self._python, "-m", "torchsleuth.judge.worker", *(["cuda"] if self._cuda else []))
        return Guarded(Launch(command, self._environment, str(self.scratch), self.log))

    def _count_false_starts(self, order: Order) -> None:
        ending = Ending.read(order.ending)
        began = bool(read_report(order.report)) or (ending is not None and ending.cause is Cause.CANCELLED)
        self._false_starts = 0 if began else self._false_starts + 1
        if self._false_starts >= _MOST_FALSE_STARTS:
            raise JudgeBroken(
                f"The judge's workers keep dying under {self._python}. Check that this interpreter imports torch. "
                f"They said:\n{read_tail(self.log, 2000)}"
            )
