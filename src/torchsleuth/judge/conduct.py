"""What all Judges do alike: prepare an order, have it performed, read what it left, and clean up.

A provider performs one order at a time per caller (`_perform`, which blocks) and can end all of them (`_end_all`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from torchsleuth.judge.generated import noted_in
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.order import Order, Stage
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.reading import ran_compiled, read_outcome
from torchsleuth.judge.trial import Trial

_Self = TypeVar("_Self", bound="Conductor")
_OWN = "torchsleuth-judge-"
_CANCELLED = Outcome(Verdict.UNKNOWN, reason="cancelled")


class Conductor(ABC):
    def __init__(self, scratch: Path, jobs: int) -> None:
        self.jobs = jobs
        self.scratch = _usable(scratch)
        self._lock = threading.Lock()
        self._judged = 0
        self._era = 0  # grows with each cancel: a trial that was asked for in an earlier one is not begun

    @property
    def judged(self) -> int:
        return self._judged

    def judge(self, trial: Trial) -> Outcome:
        try:
            return self._judge(trial, self._era, at_once=1)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        era, todo = self._era, list(trials)
        at_once = max(1, min(self.jobs, len(todo)))

        def judge(number: int, trial: Trial) -> Outcome:
            outcome = self._judge(trial, era, at_once)
            if heard is not None:
                heard(number, outcome)
            return outcome

        with ThreadPoolExecutor(self.jobs, "judge") as pool:
            futures = [pool.submit(judge, number, trial) for number, trial in enumerate(todo)]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self.cancel()  # leaving the pool waits for its threads
                raise

    def cancel(self) -> None:
        with self._lock:
            self._era += 1
        self._end_all()

    def close(self) -> None:
        self.cancel()
        if self.scratch.name.startswith(_OWN):
            shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _perform(self, order: Order) -> None:
        """Run the order; return when all its processes are gone."""

    @abstractmethod
    def _end_all(self) -> None:
        """Kill all orders in flight, within a second."""

    def _judge(self, trial: Trial, era: int, at_once: int) -> Outcome:
        if era != self._era:
            return _CANCELLED
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self.scratch))
        try:
            _write_whole(trial.script, trial.source)
            outcome = self._run_all(trial, folder, era, at_once)
            if outcome.failure is not None and outcome.verdict is Verdict.FAILED:
                outcome = replace(outcome, noted=noted_in(folder / "cache", outcome.failure.text + outcome.output))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if era != self._era and not ran_compiled(outcome):
            return _CANCELLED
        if ran_compiled(outcome):
            with self._lock:
                self._judged += 1
        return outcome

    def _run_all(self, trial: Trial, folder: Path, era: int, at_once: int) -> Outcome:
        outcome = self._run(trial, folder / "1", (Stage.EAGER, Stage.COMPILED), folder / "cache", at_once)
        eager_seconds = outcome.eager_seconds
        for number in range(2, trial.cache_runs + 1):
            # The run that fills the cache must get through: what fails already then is not a matter of cache hits.
            if outcome.verdict is not Verdict.PASSED or era != self._era:
                break
            again = self._run(trial, folder / str(number), (Stage.COMPILED,), folder / "cache", at_once)
            outcome = Outcome(again.verdict, again.failure, again.reason, again.seconds, eager_seconds, again.output)
        return outcome

    def _run(self, trial: Trial, work: Path, stages: tuple[Stage, ...], cache: Path, at_once: int) -> Outcome:
        work.mkdir()
        limit = trial.memory_limit if trial.memory_limit is not None else default_memory_limit(at_once)
        order = Order(str(work), str(trial.script.resolve()), trial.phase, stages, str(cache), trial.deadline, limit)
        Path(order.source).write_text(trial.source, encoding="utf-8")
        self._perform(order)
        return read_outcome(order)


def _usable(scratch: Path) -> Path:
    """`scratch`, or a temporary folder: Inductor does not quote paths, so a space in a cache's fails to compile."""
    if not re.fullmatch(r"[\w./+-]+", str(scratch.resolve())):
        return Path(tempfile.mkdtemp(prefix=_OWN))
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch.resolve()


def _write_whole(path: Path, text: str) -> None:
    """Renamed into place: trials that share a folder never see half a script."""
    part, name = tempfile.mkstemp(prefix=".repro-", dir=path.parent)
    with os.fdopen(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)
