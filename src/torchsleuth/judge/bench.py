"""Judges one Case in its forms and on other backends: renders, lays the data beside, asks the Judge."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case import codec, files
from torchsleuth.case.failure import Failure
from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import CannotRender, Form, Rendering, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.judge.base import Judge
from torchsleuth.judge.engines import LOCAL, Engines
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.judgement import Candidate, Engine, Judgement, JudgementLog
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.memory import Memory, Question
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.reading import ran_compiled
from torchsleuth.judge.trial import Trial


@dataclass(frozen=True)
class Way:
    """How a Case is judged: its form, whether with its data, and where that stands."""

    form: Form
    data: bool
    home: Path


@dataclass(frozen=True)
class Tried:
    """The outcome of a Case in one form, compared with the bench's target."""

    outcome: Outcome
    form: Form
    with_data: bool
    rendering: Rendering | None = None
    judgement: Judgement | None = None  # on record; None: nothing was judged, or the bench has no target
    home: Path | None = None  # where the Case's tensors stand

    def matches(self, failure: Failure) -> Match:
        return match(self.outcome, Target(failure))


@dataclass(frozen=True)
class _Prepared:
    rendering: Rendering
    question: Question
    home: Path


class Bench:
    """`memory` answers what was judged before; `deadline` is a number of seconds, or says it for each Case."""

    def __init__(
        self,
        judge: Judge,
        scratch: Path,
        *,
        python: str,
        environment: Mapping[str, str],
        deadline: float | Callable[[Case], float],
        path: Sequence[str] = (),
        memory: Memory | None = None,
        target: Target | None = None,
        log: JudgementLog | None = None,
        engines: Engines = LOCAL,
    ) -> None:
        self.judge = judge
        self.engines = engines
        self.target = target
        self.log = log or JudgementLog()
        self.engine = Engine.WORKER  # what the judge is, for the record
        self.judged = 0  # different questions whose answer took a run of compiled code, remembered ones included
        self._deadline = deadline
        self._scratch = scratch
        self._python = python
        self._environment = with_torchsleuth(environment, path)
        self._memory = memory
        self._counted: set[str] = set()
        self._numbers = itertools.count(1)

    def try_case(
        self, case: Case, home: Path, form: Form, *, backend: Backend | None = None, data: bool = False
    ) -> Tried:
        return self.try_all(case, home, form, [backend], data=data)[0]

    def try_again(
        self, case: Case, home: Path, form: Form, attempts: Sequence[int], *, data: bool = False
    ) -> list[Tried]:
        """One Case several times: attempt 0 is what the other methods ask."""
        return self._judge([self._prepare(case, home, form, None, data, number) for number in attempts], form, data)

    def try_all(
        self, case: Case, home: Path, form: Form, backends: Sequence[Backend | None], *, data: bool = False
    ) -> list[Tried]:
        """The Case on each backend (None: its own), judged at once as far as the Judge has room."""
        prepared = [self._prepare(case, home, form, backend, data) for backend in backends]
        return self._judge(prepared, form, data, [f'backend="{b.name}"' if b else "" for b in backends])

    def try_cases(
        self,
        cases: Sequence[Case],
        home: Path,
        form: Form,
        *,
        data: bool = False,
        attempt: int = 0,
        changes: Sequence[str] = (),
    ) -> list[Tried]:
        """Judge several Cases, each on its own backend; `changes` says in a phrase each how they differ."""
        prepared = [self._prepare(case, home, form, None, data, attempt) for case in cases]
        return self._judge(prepared, form, data, changes)

    def _prepare(
        self, case: Case, home: Path, form: Form, backend: Backend | None, data: bool, attempt: int = 0
    ) -> _Prepared | Outcome:
        try:
            rendering = render(case, form, backend=backend, data=data, refereed=case.check is not None)
        except CannotRender as error:
            return Outcome(Verdict.INVALID, reason=f"no script of this form can hold it: {error}")
        deadline = self._deadline(case) if callable(self._deadline) else self._deadline
        runs = 2 if case.surroundings.cache_hit else 1
        question = Question(rendering.source, rendering.data, case.phase, deadline, runs, attempt)
        return _Prepared(rendering, question, home)

    def _judge(
        self, prepared: Sequence[_Prepared | Outcome], form: Form, data: bool, changes: Sequence[str] = ()
    ) -> list[Tried]:
        """What is remembered is not judged; what is judged is remembered as soon as it is known."""
        answers: dict[int, Outcome] = {}
        trials: dict[int, Trial] = {}
        for place, one in enumerate(prepared):
            found = self._known(one)
            made = self._lay_out(one) if found is None and isinstance(one, _Prepared) else None
            if isinstance(made, Trial):
                trials[place] = made
            else:
                answers[place] = found or made or Outcome(Verdict.UNKNOWN)
        places = list(trials)

        def heard(number: int, outcome: Outcome) -> None:
            one = prepared[places[number]]
            if self._memory is not None and isinstance(one, _Prepared):
                self._memory.keep(one.question, outcome)

        try:
            answers.update(zip(places, self.judge.judge_all(trials.values(), heard), strict=True))
        finally:
            for trial in trials.values():
                shutil.rmtree(trial.folder, ignore_errors=True)
        tried = []
        for place, one in enumerate(prepared):
            self._count(one, answers[place])
            rendering, home = (one.rendering, one.home) if isinstance(one, _Prepared) else (None, None)
            change = changes[place] if place < len(changes) else ""
            judgement = self._note(one, answers[place], change)
            tried.append(Tried(answers[place], form, data, rendering, judgement, home))
        return tried

    def _note(self, one: _Prepared | Outcome, outcome: Outcome, change: str) -> Judgement | None:
        if self.target is None or not isinstance(one, _Prepared):
            return None
        found = match(outcome, self.target)
        return self.log.note(
            _candidate(one.question, change),
            found,
            self.engine,
            failed=int(found is Match.SAME),
            seconds=outcome.seconds,
            reason=outcome.reason,
        )

    def keep(self, tried: Tried) -> None:
        """Keep the script of a judgement that a sentence rests on, with its data."""
        if tried.judgement is None or tried.rendering is None or tried.home is None:
            return
        candidate = Candidate(tried.judgement.candidate, tried.rendering.source)
        place = self.log.keep(candidate)
        if place is not None and tried.rendering.data and not (place / DATA_FILE).exists():
            with files.replacing(place / DATA_FILE) as temporary:
                self.write_data(tried.rendering, tried.home, temporary)

    def _known(self, one: _Prepared | Outcome) -> Outcome | None:
        if isinstance(one, Outcome):
            return one
        return self._memory.recall(one.question) if self._memory is not None else None

    def _count(self, one: _Prepared | Outcome, outcome: Outcome) -> None:
        if isinstance(one, _Prepared) and ran_compiled(outcome) and one.question.key not in self._counted:
            self._counted.add(one.question.key)
            self.judged += 1

    def _lay_out(self, one: _Prepared) -> Trial | Outcome:
        folder = self._scratch / f"trial-{next(self._numbers)}"
        folder.mkdir(parents=True)
        if one.rendering.data:
            problem = self.write_data(one.rendering, one.home, folder / DATA_FILE)
            if problem:
                return Outcome(Verdict.UNKNOWN, reason=problem)
        question = one.question
        return Trial(question.source, folder, question.phase, question.deadline, cache_runs=question.cache_runs)

    def write_data(self, rendering: Rendering, home: Path, target: Path) -> str:
        """In a process of its own: the tool itself never imports torch."""
        tensors = {name: codec.encode(tensor) for name, tensor in rendering.data.items()}
        return self.engines.write_data(self._python, self._environment, home, target, tensors)


def _candidate(question: Question, change: str) -> Candidate:
    return Candidate(
        question.key,
        question.source,
        (change,) if change else (),
        cache_runs=question.cache_runs,
        phase=question.phase.value,
    )
