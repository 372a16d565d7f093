"""What is found out once there is a reduced, verified repro: what of it is needed, what may vary, how to work around.

Each takes a few judgements and is left out where the budget is spent; what is found goes onto every page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Case
from torchsleuth.case.program import render
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate import ablation, workarounds
from torchsleuth.locate.inside import KERNELS
from torchsleuth.locate.shown import last_computing
from torchsleuth.located import Locator
from torchsleuth.minimise import same_failure
from torchsleuth.reduce.chance import repeatedly
from torchsleuth.reduce.needed import needed
from torchsleuth.reduce.neighbour import nearest
from torchsleuth.reduce.variations import vary
from torchsleuth.write.findings import Finding


@dataclass(frozen=True)
class Known:
    """What the reduction leaves behind: the Case it ended with, and the scripts that passed on the way."""

    case: Case
    way: Way
    complete: bool  # nothing was left to try
    passing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Afterwards:
    bench: Bench
    whole: Way  # how the user's own Case is judged
    time_left: Callable[[], bool]
    say: Callable[[str], None]
    locating: bool = False  # also where nothing was reduced

    def learn(self, finding: Finding, whole: Case, known: Known | None) -> Finding:
        """`known` is None where nothing was reduced."""
        if known is not None and finding.reproduced:
            finding = self._facts(finding, known)
        if known is not None or self.locating:
            case, way = (known.case, known.way) if known is not None else (whole, self.whole)
            finding = Locator(self.bench, self.time_left, self.say).locate(finding, case, way)
        if self.locating and self.time_left() and not finding.chance.flaky:
            rows = ablation.ablate(whole, lambda cases: self._pass(cases, finding, self.whole))
            finding = replace(finding, ablation=rows)
        finding = _with_workaround(finding, self._workaround(finding, whole, known))
        return _shown_at(finding, known.case) if known is not None else finding

    def _facts(self, finding: Finding, known: Known) -> Finding:
        if known.complete:
            finding = replace(finding, needed=needed(known.case))
        if self.time_left():
            self.say("looking at what may vary")
            finding = replace(finding, varies=vary(known.case, lambda cases: self._fail(cases, finding, known.way)))
        form, data = known.way.form, known.way.data
        source = render(known.case, form, data=data, refereed=known.case.check is not None).source  # as it was judged
        return replace(finding, neighbour=nearest(source, known.passing))

    def _workaround(self, finding: Finding, whole: Case, known: Known | None) -> str | None:
        found = None
        if known is None and self.locating:
            known = Known(whole, self.whole, complete=False)
        if known is not None and self.time_left():
            self.say("looking for a workaround")
            blamed = finding.inside.blamed if finding.inside is not None and finding.inside.alone else None
            found = workarounds.find(
                known.case, whole, finding.failure.kind, finding.component, finding.culprit.op, blamed,
                lambda cases: self._pass(cases, finding, known.way),
                lambda cases: self._pass(cases, finding, self.whole),
            )  # fmt: skip
        return found or workarounds.other_backend(finding.rungs)

    def _pass(self, cases: Sequence[Case], finding: Finding, way: Way) -> list[bool]:
        """A failure that comes and goes must stay away as often as it takes to be sure."""
        if not self.time_left():
            return [False] * len(cases)

        def does_not(some: Sequence[Case], attempt: int) -> list[bool]:
            return [not _passed(tried) for tried in self._try(some, way, attempt)]

        return [not fails for fails in repeatedly(cases, finding.chance.repeats, does_not)]

    def _fail(self, cases: Sequence[Case], finding: Finding, way: Way) -> list[bool | None]:
        if finding.chance.flaky:
            return [None] * len(cases)
        return [
            True if same_failure(tried, finding.failure) else False if _passed(tried) else None
            for tried in self._try(cases, way)
        ]

    def _try(self, cases: Sequence[Case], way: Way, attempt: int = 0) -> list[Tried]:
        return self.bench.try_cases(cases, way.home, way.form, data=way.data, attempt=attempt)


def _with_workaround(finding: Finding, text: str | None) -> Finding:
    """A switch that helps says more of where the fault is: beside an operator's lowering, or alone."""
    switched = workarounds.switched_by(text) if text else None
    found, culprit = finding.inside, finding.culprit
    if switched and (found is None or found.blamed is None or not found.alone):
        culprit = replace(culprit, compiler_pass=switched)
    elif switched and found is not None and found.blamed is not None and found.blamed.stage in KERNELS:
        # Memory is shared, or not, according to the kernels that there are: the operator is only where it shows.
        memory = workarounds.is_about_memory(switched)
        name = f"{switched}, at the {found.name}" if memory else f"{found.name}, with {switched}"
        culprit = replace(culprit, compiler_pass=name)
    return replace(finding, workaround=text, culprit=culprit)


def _shown_at(finding: Finding, smallest: Case) -> Finding:
    """Last, because it says the least: what was found out by judging comes first."""
    node = last_computing(smallest.graph)
    if finding.culprit.op or node is None:
        return finding
    culprit = replace(finding.culprit, op=node.target, source=finding.culprit.source or node.source)
    return replace(finding, culprit=culprit)


def _passed(tried: Tried) -> bool:
    return tried.outcome.verdict is Verdict.PASSED
