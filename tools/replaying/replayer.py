"""Engines that answer from a record and start no process."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from replaying import questions
from replaying.clock import StandingClock
from replaying.places import Places
from replaying.questions import Question
from replaying.record import Answer, digest, shown
from torchsleuth.case import codec
from torchsleuth.case.failure import Phase
from torchsleuth.judge.base import Judge
from torchsleuth.judge.engines import Running
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.trial import Trial
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Options

_MOST_TICKS = 400
_TICK = 1.0  # seconds of the clock that stands still
_YIELD = 0.005  # seconds for the thread that looks into a hang


class NotOnRecord(BaseException):
    """A question that the recorded run did not ask.

    Not an Exception: a run contains its own faults, and this must end it.
    """


class ReplayEngines:
    """Answers each question as often as it was answered in the recorded run, and more often where all answers agree."""

    def __init__(self, answers: Iterable[Answer], places: Places) -> None:
        self.places = places
        self.written: dict[Path, str] = {}
        self.asked: list[str] = []  # every question, in order
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        self._clock = StandingClock()
        for one in answers:
            self._answers[one.key].append(one)

    def answer(self, question: Question) -> Any:
        """Return what was said, and put the files in place that came with it.

        Raises:
            NotOnRecord: Nobody asked this in the recorded run, or not so often.
        """
        known = self._answers.get(question.key, [])
        before = self.asked.count(question.key)
        self.asked.append(question.key)
        if before >= len(known) and not _agree(known):
            times = f" {before + 1} times (the record has {len(known)} answers)" if known else ""
            candidate = f":\n\n{question.text}" if question.text else ""
            raise NotOnRecord(f"not on record, asked{times}: {question.asked}{candidate}")
        found = known[min(before, len(known) - 1)]
        found.restore(question.places)
        return shown(found.said, question.places)

    @property
    def unused(self) -> list[str]:
        """Recorded questions that nobody asked."""
        return [answers[0].asked for key, answers in self._answers.items() if key not in self.asked]

    def open_judge(
        self,
        devices: Collection[str],
        *,
        python: str,
        environment: Mapping[str, str],
        scratch: Path,
        path: Sequence[str] = (),
        jobs: int = 2,
    ) -> Judge:
        return _Replayed(questions.of_environment(list(devices), environment, self.places), self)

    def open_check(self, command: str, jobs: int) -> Judge:
        return _Replayed(f"check {self.places.hide(command)}", self)

    def fresh(
        self,
        script: Path,
        phase: Phase,
        *,
        python: str,
        environment: Mapping[str, str],
        deadline: float,
        eager: bool = False,
        stopped: Callable[[], bool] = lambda: False,
        at_once: int = 1,
    ) -> Outcome:
        name = "a fresh process with compilation off" if eager else "a fresh process"
        data = questions.data_beside(script.parent, self.written)
        source = script.read_text(encoding="utf-8")
        question = questions.of_script(name, source, script.parent, phase.value, self.places, data)
        return _outcome(self.answer(question))

    def watch(
        self,
        command: Sequence[str],
        session: Path,
        options: Options,
        *,
        extra: Mapping[str, str] | None = None,
        tick: Callable[[], bool] | None = None,
    ) -> Ended:
        said = self.answer(questions.of_program(command, session, options, extra or {}, self.places))
        ended: Ended = codec.decode(Ended, said["ended"], "ended")
        if ended.stopped and tick is not None:  # by whoever watches for hangs
            self._wait_for(tick)
        return ended

    def start(self, launch: Launch) -> Running:
        self.answer(questions.of_launch(launch, self.places))
        return _Gone()

    def write_data(
        self, python: str, environment: Mapping[str, str], home: Path, target: Path, tensors: Mapping[str, Any]
    ) -> str:
        said = self.answer(Question("tensors of a Case", ["data", tensors], self.places))
        self.written[target.resolve()] = digest(tensors)
        target.write_bytes(b"\0" * said["bytes"])
        return str(said["problem"])

    def versions(self, python: str, environment: Mapping[str, str]) -> str:
        return str(self.answer(Question("the versions of torch and Python", ["versions"], self.places))["versions"])

    def now(self) -> float:
        return self._clock.now()

    def _wait_for(self, tick: Callable[[], bool]) -> None:
        for _ in range(_MOST_TICKS):
            if tick():
                return
            self._clock.advance(_TICK)
            time.sleep(_YIELD)
        raise NotOnRecord("the recorded program was ended because it hung, and this run does not end it")


class _Gone:
    """A command that has ended already."""

    def wait(self, seconds: float | None = None) -> bool:
        return True

    def stop(self) -> None:
        """Nothing runs."""


class _Replayed:
    """A Judge that answers from the record."""

    jobs = 1

    def __init__(self, name: str, engines: ReplayEngines) -> None:
        self.judged = 0
        self._name = name
        self._engines = engines

    def judge(self, trial: Trial) -> Outcome:
        data = questions.data_beside(trial.folder, self._engines.written)
        said = self._engines.answer(questions.of_trial(self._name, trial, self._engines.places, data))
        self.judged += int(said["counted"])
        return _outcome(said)

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        outcomes = []
        for number, trial in enumerate(trials):
            outcomes.append(self.judge(trial))
            if heard is not None:
                heard(number, outcomes[-1])
        return outcomes

    def cancel(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _outcome(said: Mapping[str, Any]) -> Outcome:
    outcome: Outcome = codec.decode(Outcome, said["outcome"], "outcome")
    return outcome


def _agree(answers: Sequence[Answer]) -> bool:
    """Whether one more answer would be the same: all outcomes have one verdict and one fingerprint."""
    seen = set()
    for one in answers:
        outcome = one.said.get("outcome") or {}
        failure = outcome.get("failure") or {}
        seen.add((outcome.get("verdict"), str(failure.get("fingerprint"))))
    return len(seen) == 1
