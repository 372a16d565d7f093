"""The Judge for CUDA on Linux: CUDA is started in each trial, after the fork.

A context takes a quarter of a second to make; a process that imports torch and the compiler takes twelve.  So where a
few cores serve the device, forking is what makes a judgement fast, and only what is being judged holds memory there.
It works as long as nothing in the warm process has started CUDA, which the zygote tries once; where that fails, workers
are spawned instead.
"""

from __future__ import annotations

from torchsleuth.errors import JudgeBroken
from torchsleuth.judge.forked import ForkedJudge
from torchsleuth.judge.order import Order
from torchsleuth.judge.spawned import SpawnedJudge


class ForkedCudaJudge(ForkedJudge):
    _warm_for = ("cuda",)
    _instead: SpawnedJudge | None = None

    def close(self) -> None:
        super().close()
        if self._instead is not None:
            self._instead.close()

    def _perform(self, order: Order) -> None:
        if self._instead is None:
            try:
                super()._perform(order)
                return
            except JudgeBroken:
                self._spawn_instead()
        assert self._instead is not None
        self._instead._perform(order)

    def _spawn_instead(self) -> None:
        with self._starting:
            if self._instead is None:
                self._instead = SpawnedJudge(
                    self._python, self._environment, jobs=self.jobs, scratch=self.scratch, cuda=True
                )

    def _end_all(self) -> None:
        super()._end_all()
        if self._instead is not None:
            self._instead._end_all()
