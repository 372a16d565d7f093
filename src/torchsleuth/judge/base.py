"""The interface of every Judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol

from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.trial import Trial


class Judge(Protocol):
    """Runs scripts in isolation and says what happened.  Whatever a script does, the Judge survives it."""

    jobs: int

    @property
    def judged(self) -> int:
        """How many judgements ran compiled code."""

    def judge(self, trial: Trial) -> Outcome: ...

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        """At most `jobs` at once; the outcomes in the order of the trials.

        `heard` is told each as it comes, with the trial's place, in the thread that judged it.
        """

    def cancel(self) -> None:
        """Kill all that is in flight; its outcomes become UNKNOWN.  The Judge can be used again afterwards."""

    def close(self) -> None: ...

    def __enter__(self) -> Judge: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
