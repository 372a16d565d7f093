"""Engines that ask others and keep every answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from replaying import questions
from replaying.clock import StandingClock
from replaying.places import Places
from replaying.questions import Question
from replaying.record import Answer, digest, hidden, kept_file
from torchsleuth.case import codec
from torchsleuth.case.failure import Phase
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.judge.base import Judge
from torchsleuth.judge.engines import Engines, Running
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Options

_GENERATED = re.compile(r"/@cache@/[\w./-]+\.(?:py|cpp)\b")
_CACHE = "cache"  # in a session: compiled code, which nobody reads again


class RecordingEngines:
    """One answer at a time: record with one job."""

    def __init__(self, inner: Engines, places: Places) -> None:
        self.answers: list[Answer] = []
        self.places = places
        self.written: dict[Path, str] = {}  # data files, and what is in them
        self._inner = inner
        self._clock = StandingClock()
        self._lock = threading.Lock()

    def keep(self, question: Question, said: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
        answer = Answer(question.key, question.asked, hidden(said, question.places), files or {})
        with self._lock:
            self.answers.append(answer)

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
        name = questions.of_environment(list(devices), environment, self.places)
        judge = self._inner.open_judge(
            devices, python=python, environment=environment, scratch=scratch, path=path, jobs=jobs
        )
        return _Recorded(judge, name, self)

    def open_check(self, command: str, jobs: int) -> Judge:
        return _Recorded(self._inner.open_check(command, jobs), f"check {self.places.hide(command)}", self)

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
        before = _names(script.parent)
        outcome = self._inner.fresh(
            script,
            phase,
            python=python,
            environment=environment,
            deadline=deadline,
            eager=eager,
            stopped=stopped,
            at_once=at_once,
        )
        self.keep_outcome(question, outcome, script.parent, before)
        return outcome

    def keep_outcome(
        self, question: Question, outcome: Outcome, folder: Path, before: set[str], counted: int = 0
    ) -> None:
        """`before` are the files that stood in `folder`; what is there besides came with the answer."""
        if outcome.verdict is Verdict.UNKNOWN and outcome.reason == "cancelled":
            return
        new = [folder / name for name in sorted(_names(folder) - before) if name not in ("repro.py", DATA_FILE)]
        files = {question.places.hide(str(one)): kept_file(one, question.places) for one in new if one.is_file()}
        self.keep(question, {"outcome": codec.encode(outcome), "counted": counted}, files)

    def watch(
        self,
        command: Sequence[str],
        session: Path,
        options: Options,
        *,
        extra: Mapping[str, str] | None = None,
        tick: Callable[[], bool] | None = None,
    ) -> Ended:
        question = questions.of_program(command, session, options, extra or {}, self.places)
        with self._clock.running():
            ended = self._inner.watch(command, session, options, extra=extra, tick=tick)
        self.keep(question, {"ended": codec.encode(ended)}, self._left_by(question))
        return ended

    def start(self, launch: Launch) -> Running:
        return _Started(self._inner.start(launch), questions.of_launch(launch, self.places), self)

    def keep_launch(self, question: Question) -> None:
        self.keep(question, {}, self._left_by(question))

    def write_data(
        self, python: str, environment: Mapping[str, str], home: Path, target: Path, tensors: Mapping[str, Any]
    ) -> str:
        question = Question("tensors of a Case", ["data", tensors], self.places)
        problem = self._inner.write_data(python, environment, home, target, tensors)
        self.written[target.resolve()] = digest(tensors)
        self.keep(question, {"problem": problem, "bytes": target.stat().st_size if target.exists() else 0})
        return problem

    def versions(self, python: str, environment: Mapping[str, str]) -> str:
        text = self._inner.versions(python, environment)
        self.keep(Question("the versions of torch and Python", ["versions"], self.places), {"versions": text})
        return text

    def now(self) -> float:
        return self._clock.now()

    def _left_by(self, question: Question) -> dict[str, bytes]:
        """The session and the trace of a program, what it printed, and generated code that these name."""
        paths = question.places.paths
        found = [Path(paths[name]) for name in ("output", "ending") if name in paths]
        for name in ("session", "trace"):
            folder = Path(paths.get(name, "/nowhere"))
            found += [one for one in sorted(folder.rglob("*")) if one.relative_to(folder).parts[0] != _CACHE]
        kept = {
            question.places.hide(str(one)): _without_life(one, kept_file(one, question.places))
            for one in found
            if one.is_file()
        }
        named = {name for content in kept.values() for name in _GENERATED.findall(content.decode(errors="replace"))}
        for name in sorted(named):
            path = Path(question.places.show(name))
            if path.is_file():
                kept[name] = kept_file(path, question.places)
                if path.with_suffix(".so").exists():
                    kept[question.places.hide(str(path.with_suffix(".so")))] = b""
        return kept


class _Started:
    """A command that runs; what it leaves is kept once it is gone."""

    def __init__(self, inner: Running, question: Question, engines: RecordingEngines) -> None:
        self._inner = inner
        self._question = question
        self._engines = engines
        self._kept = False

    def wait(self, seconds: float | None = None) -> bool:
        over = self._inner.wait(seconds)
        if over and not self._kept:
            self._kept = True
            self._engines.keep_launch(self._question)
        return over

    def stop(self) -> None:
        self._inner.stop()


class _Recorded:
    """A Judge whose outcomes are kept."""

    def __init__(self, inner: Judge, name: str, engines: RecordingEngines) -> None:
        self.jobs = inner.jobs
        self._inner = inner
        self._name = name
        self._engines = engines

    @property
    def judged(self) -> int:
        return self._inner.judged

    def judge(self, trial: Trial) -> Outcome:
        data = questions.data_beside(trial.folder, self._engines.written)
        question = questions.of_trial(self._name, trial, self._engines.places, data)
        before, counted = _names(trial.folder), self._inner.judged
        outcome = self._inner.judge(trial)
        self._engines.keep_outcome(question, outcome, trial.folder, before, self._inner.judged - counted)
        return outcome

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        outcomes = []
        for number, trial in enumerate(trials):
            outcomes.append(self.judge(trial))
            if heard is not None:
                heard(number, outcomes[-1])
        return outcomes

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def _without_life(path: Path, content: bytes) -> bytes:
    """The hello of a process without the mark by which it is known to live: a replay takes it to live on."""
    if path.name != "hello.json":
        return content
    return json.dumps({**json.loads(content), "life": None}).encode()
