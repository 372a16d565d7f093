"""Judges one Case in its forms and on other backends: renders, lays the data beside, asks the Judge."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case import codec
from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import CannotRender, Form, Rendering, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.judge.base import Judge
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial


@dataclass(frozen=True)
class Tried:
    """A Case in one form, and what the Judge said of it."""

    outcome: Outcome
    form: Form
    with_data: bool
    rendering: Rendering | None = None
    folder: Path | None = None  # where script and data stand


class Bench:
    def __init__(
        self,
        judge: Judge,
        scratch: Path,
        *,
        python: str,
        environment: Mapping[str, str],
        deadline: float,
        path: Sequence[str] = (),
    ) -> None:
        self.judge = judge
        self.deadline = deadline
        self._scratch = scratch
        self._python = python
        self._environment = with_torchsleuth(environment, path)
        self._numbers = itertools.count(1)

    def try_case(
        self, case: Case, home: Path, form: Form, *, backend: Backend | None = None, data: bool = False
    ) -> Tried:
        return self.try_all(case, home, form, [backend], data=data)[0]

    def try_all(
        self, case: Case, home: Path, form: Form, backends: Sequence[Backend | None], *, data: bool = False
    ) -> list[Tried]:
        """The Case on each backend (None: its own), judged at once as far as the Judge has room."""
        return self._judge([self._prepare(case, home, form, backend, data) for backend in backends], form, data)

    def try_cases(self, cases: Sequence[Case], home: Path, form: Form, *, data: bool = False) -> list[Tried]:
        """Several Cases, each on its own backend."""
        return self._judge([self._prepare(case, home, form, None, data) for case in cases], form, data)

    def _judge(self, prepared: Sequence[tuple[Trial, Rendering] | Outcome], form: Form, data: bool) -> list[Tried]:
        outcomes = iter(self.judge.judge_all([one[0] for one in prepared if isinstance(one, tuple)]))
        found = []
        for one in prepared:
            if isinstance(one, tuple):
                trial, rendering = one
                found.append(Tried(next(outcomes), form, data, rendering, trial.folder))
            else:
                found.append(Tried(one, form, data))
        return found

    def _prepare(
        self, case: Case, home: Path, form: Form, backend: Backend | None, data: bool
    ) -> tuple[Trial, Rendering] | Outcome:
        try:
            rendering = render(case, form, backend=backend, data=data, refereed=case.check is not None)
        except CannotRender as error:
            return Outcome(Verdict.HARNESS_ERROR, reason=f"this form cannot hold it: {error}")
        folder = self._scratch / f"trial-{next(self._numbers)}"
        folder.mkdir(parents=True)
        if rendering.data:
            problem = self.write_data(rendering, home, folder / DATA_FILE)
            if problem:
                return Outcome(Verdict.HARNESS_ERROR, reason=problem)
        runs = 2 if case.surroundings.cache_hit else 1
        return Trial(rendering.source, folder, case.phase, self.deadline, cache_runs=runs), rendering

    def write_data(self, rendering: Rendering, home: Path, target: Path) -> str:
        """In a process of its own: the tool itself never imports torch."""
        wanted = {name: codec.encode(tensor) for name, tensor in rendering.data.items()}
        done = subprocess.run(
            [self._python, "-m", "torchsleuth.case.datafile", str(home), str(target)],
            input=json.dumps(wanted), text=True, capture_output=True, env=self._environment, check=False,
        )  # fmt: skip
        return f"the data could not be written: {done.stderr.strip()[-300:]}" if done.returncode else ""
