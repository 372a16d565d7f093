"""What is found out once there is a reduced, verified repro: what of it is needed, what may vary, how to work around.

Each takes a few judgements and is left out where the budget is spent; what is found goes onto every page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure
from torchsleuth.case.model import Case
from torchsleuth.case.program import render
from torchsleuth.judge.bench import Bench, Tried
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate import workarounds
from torchsleuth.minimise import same_failure
from torchsleuth.reduce.needed import needed
from torchsleuth.reduce.neighbour import nearest
from torchsleuth.reduce.variations import vary
from torchsleuth.write.findings import Finding


@dataclass(frozen=True)
class Known:
    """What the reduction leaves behind: the Case it ended with, and the scripts that passed on the way."""

    case: Case
    complete: bool  # nothing was left to try
    passing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Afterwards:
    bench: Bench
    home: Path
    best: Tried
    time_left: Callable[[], bool]
    say: Callable[[str], None]

    def learn(self, finding: Finding, whole: Case, known: Known | None) -> Finding:
        """`known` is None where nothing was reduced."""
        if known is not None and finding.reproduced:
            finding = self._facts(finding, known)
        return replace(finding, workaround=self._workaround(finding, whole, known.case if known else None))

    def _facts(self, finding: Finding, known: Known) -> Finding:
        if known.complete:
            finding = replace(finding, needed=needed(known.case))
        if self.time_left():
            self.say("looking at what may vary")
            finding = replace(finding, varies=vary(known.case, lambda cases: self._fail(cases, finding.failure)))
        source = render(known.case, self.best.form, data=self.best.with_data).source
        return replace(finding, neighbour=nearest(source, known.passing))

    def _workaround(self, finding: Finding, whole: Case, small: Case | None) -> str | None:
        found = None
        if small is not None and self.time_left():
            self.say("looking for a workaround")
            found = workarounds.find(
                small, whole, finding.failure.kind, finding.component, finding.culprit.op, self._pass, self._pass
            )
        return found or workarounds.other_backend(finding.rungs)

    def _pass(self, cases: Sequence[Case]) -> list[bool]:
        if not self.time_left():
            return [False] * len(cases)
        return [tried.outcome.verdict is Verdict.PASSED for tried in self._try(cases)]

    def _fail(self, cases: Sequence[Case], failure: Failure) -> list[bool | None]:
        return [
            True if same_failure(tried, failure) else False if tried.outcome.verdict is Verdict.PASSED else None
            for tried in self._try(cases)
        ]

    def _try(self, cases: Sequence[Case]) -> list[Tried]:
        return self.bench.try_cases(cases, self.home, self.best.form, data=self.best.with_data)
