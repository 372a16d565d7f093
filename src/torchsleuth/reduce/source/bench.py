"""Judges scripts and keeps every answer: nothing that may be remembered is judged twice."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case.failure import Phase
from torchsleuth.judge.base import Judge
from torchsleuth.judge.judgement import Candidate, Engine, JudgementLog
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.memory import Question
from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.reading import ran_compiled
from torchsleuth.judge.trial import Trial
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.source.outside import reads_outside


@dataclass(frozen=True)
class Run:
    """How scripts are run."""

    phase: Phase
    deadline: float  # seconds
    attempt: int = 0  # a script whose failure comes and goes is judged several times


class ScriptBench:
    """`folders` hold the program's own modules; what imports one of them is remembered for this run only."""

    def __init__(
        self,
        judge: Judge,
        scratch: Path,
        journal: Journal,
        folders: Sequence[Path] = (),
        log: JudgementLog | None = None,
    ) -> None:
        self.judge = judge
        self.log = log or JudgementLog()
        self.journal = journal
        self.judged = 0  # different questions whose answer took a run of compiled code, remembered ones included
        self._scratch = scratch
        self._folders = list(folders)
        self._this_run = Journal()
        self._counted: set[str] = set()
        self._numbers = itertools.count(1)

    def remembers(self, text: str) -> bool:
        """Whether an answer that an earlier run of the tool had about this script still holds."""
        return not reads_outside(text, self._folders)

    def judge_all(self, texts: Sequence[str], run: Run, target: Target) -> list[Outcome]:
        questions = [Question(text, {}, run.phase, run.deadline, attempt=run.attempt) for text in texts]
        memories = [self.journal if self.remembers(text) else self._this_run for text in texts]
        found = [memory.recall(question) for memory, question in zip(memories, questions, strict=True)]
        missing = [place for place, outcome in enumerate(found) if outcome is None]
        trials = [self._trial(questions[place]) for place in missing]

        def keep(number: int, outcome: Outcome) -> None:
            place = missing[number]
            memories[place].keep(questions[place], outcome)

        try:
            answers = iter(self.judge.judge_all(trials, keep)) if trials else iter(())
        finally:
            for trial in trials:
                shutil.rmtree(trial.folder, ignore_errors=True)
        outcomes = [outcome if outcome is not None else next(answers) for outcome in found]
        for question, outcome in zip(questions, outcomes, strict=True):
            self._count(question, outcome)
            found_match = match(outcome, target)
            self.log.note(
                Candidate(question.key, question.source, phase=question.phase.value),
                found_match,
                Engine.WORKER,
                failed=int(found_match is Match.SAME),
                seconds=outcome.seconds,
                reason=outcome.reason,
            )
        return outcomes

    def _trial(self, question: Question) -> Trial:
        folder = self._scratch / f"source-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return Trial(question.source, folder, question.phase, question.deadline)

    def _count(self, question: Question, outcome: Outcome) -> None:
        if ran_compiled(outcome) and question.key not in self._counted:
            self._counted.add(question.key)
            self.judged += 1
