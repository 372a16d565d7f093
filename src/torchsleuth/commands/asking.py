"""Judges whether a script has a graph break, or is compiled again, for one cause; every answer is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.failure import Phase
from torchsleuth.explain.observed import Observed, recorded
from torchsleuth.explain.recorder import recorder
from torchsleuth.judge.base import Judge
from torchsleuth.judge.memory import Question
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.source.outside import reads_outside

_SHOWN = "torch tells of the cause"


@dataclass(frozen=True)
class Cause:
    """What to look for: a break by its reason, or a recompilation by the part of its guard that stays."""

    is_break: bool
    key: str
    title: str  # as explain tells it
    source: str  # where it is in the program

    def in_(self, seen: Observed) -> bool:
        return self.key in (seen.breaks if self.is_break else seen.recompiles)

    @property
    def question(self) -> str:
        return f"{'break' if self.is_break else 'recompile'}: {self.key}"


class Asking:
    """`folders` hold the program's own modules; an answer about what imports one of them counts in this run only."""

    def __init__(self, judge: Judge, scratch: Path, journal: Journal, folders: Sequence[Path]) -> None:
        self.judged = 0  # different questions, remembered ones included
        self._judge = judge
        self._scratch = scratch
        self._journal = journal
        self._this_run = Journal()
        self._folders = folders
        self._counted: set[str] = set()

    def ask(self, texts: Sequence[str], cause: Cause, deadline: float) -> list[Outcome]:
        """An outcome for each text; `shows` says whether torch told of the cause."""
        found = [self._memory(text).recall(_question(text, cause, deadline)) for text in texts]
        missing = [place for place, outcome in enumerate(found) if outcome is None]
        placed = [self.place(texts[place]) for place in missing]
        trials = [Trial(source, folder, Phase.RUN_FORWARD, deadline) for source, folder in placed]

        def keep(number: int, outcome: Outcome) -> None:
            text = texts[missing[number]]
            told = _with_answer(outcome, cause, placed[number][1])
            self._memory(text).keep(_question(text, cause, deadline), told)

        answers = self._judge.judge_all(trials, keep) if trials else []
        for place, outcome, (_, folder) in zip(missing, answers, placed, strict=True):
            found[place] = _with_answer(outcome, cause, folder)
        for text in texts:
            self._count(_question(text, cause, deadline))
        return [outcome for outcome in found if outcome is not None]

    def place(self, text: str) -> tuple[str, Path]:
        """A script that runs the text and records; the folder in which both find their place."""
        folder = Path(tempfile.mkdtemp(prefix="example-", dir=self._scratch))
        files.write_text(folder / "program.py", text)
        return recorder(str(folder / "program.py"), str(folder / "record")), folder

    def _memory(self, text: str) -> Journal:
        return self._this_run if reads_outside(text, self._folders) else self._journal

    def _count(self, question: Question) -> None:
        if question.key not in self._counted:
            self._counted.add(question.key)
            self.judged += 1


def shows(outcome: Outcome) -> bool:
    return outcome.verdict is Verdict.PASSED and outcome.reason == _SHOWN


def _with_answer(outcome: Outcome, cause: Cause, folder: Path) -> Outcome:
    shown = outcome.verdict is Verdict.PASSED and cause.in_(recorded(folder / "record"))
    return replace(outcome, reason=_SHOWN) if shown else outcome


def _question(text: str, cause: Cause, deadline: float) -> Question:
    return Question(f"# {cause.question}\n{text}", {}, Phase.RUN_FORWARD, deadline)
