"""What is found out once there is a reduced, verified repro: what of it is needed, what may vary, how to work around.

Each takes a few judgements and is left out where the budget is spent; what is found goes onto every page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import render
from torchsleuth.investigate.located import Locator
from torchsleuth.investigate.minimise import same_failure
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate import ablation, workarounds
from torchsleuth.locate.inside import KERNELS
from torchsleuth.locate.shown import last_computing
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
    whole: tuple[Case, Way] | None  # the user's own Case, and how it fails; None: it was not seen to
    time_left: Callable[[], bool]
    say: Callable[[str], None]
    locating: bool = False  # also where nothing was reduced

    def learn(self, finding: Finding, known: Known | None) -> Finding:
        """`known` is None where nothing was reduced."""
        if known is not None and finding.reproduced:
            finding = self._facts(finding, known)
        looked_at = (known.case, known.way) if known is not None else self.whole if self.locating else None
        if looked_at is not None:
            finding = Locator(self.bench, self.time_left, self.say).locate(finding, *looked_at)
        if self.locating and self.whole is not None and self.time_left() and not finding.chance.flaky:
            case, way = self.whole
            finding = replace(finding, ablation=ablation.ablate(case, lambda cases: self._pass(cases, finding, way)))
        finding = _with_workaround(finding, self._workaround(finding, known))
        return _shown_at(finding, known.case) if known is not None else finding

    def _facts(self, finding: Finding, known: Known) -> Finding:
        if known.complete:
            finding = replace(finding, needed=needed(known.case))
        passing = list(known.passing)
        if self.time_left():
            self.say("looking at what may vary")
            found = vary(known.case, lambda cases: self._fail(cases, finding, known.way, passing))
            finding = replace(finding, varies=(*finding.varies, *found))
        form, data = known.way.form, known.way.data
        source = render(known.case, form, data=data, refereed=known.case.check is not None).source  # as it was judged
        return replace(finding, neighbour=nearest(source, passing))

    def _workaround(self, finding: Finding, known: Known | None) -> str | None:
        """What helps the user's own Case: without one that fails, nothing can be seen to help."""
        if self.whole is None:
            return None
        (whole, way), found = self.whole, None
        small = known or (Known(whole, way, complete=False) if self.locating else None)
        if small is not None and self.time_left():
            self.say("looking for a workaround")
            blamed = finding.inside.blamed if finding.inside is not None and finding.inside.alone else None
            found = workarounds.find(
                small.case, whole, finding.failure.kind, finding.component, finding.culprit.op, blamed,
                lambda cases: self._pass(cases, finding, small.way),
                lambda cases: self._pass(cases, finding, way),
            )  # fmt: skip
        climbed_whole = known is None and (finding.repro is None or finding.repro.ops == finding.ops_before)
        return found or self._other_backend(finding, whole, way, climbed_whole=climbed_whole)

    def _other_backend(self, finding: Finding, whole: Case, way: Way, *, climbed_whole: bool) -> str | None:
        """The last resort, known from the ladder."""
        name = workarounds.other_backend(finding.rungs)
        if name is None:
            return None
        on_it = replace(whole, surroundings=replace(whole.surroundings, backend=Backend(name)))
        seen = climbed_whole or self._pass([on_it], finding, way)[0]
        return f'torch.compile(..., backend="{name}")' if seen else None

    def _pass(self, cases: Sequence[Case], finding: Finding, way: Way) -> list[bool]:
        """A failure that comes and goes must stay away as often as it takes to be sure."""
        if not self.time_left():
            return [False] * len(cases)

        def does_not(some: Sequence[Case], attempt: int) -> list[bool]:
            return [not _passed(tried) for tried in self._try(some, way, attempt)]

        return [not fails for fails in repeatedly(cases, finding.chance.repeats, does_not)]

    def _fail(self, cases: Sequence[Case], finding: Finding, way: Way, passing: list[str]) -> list[bool | None]:
        """Scripts that pass are added to `passing`: no other is nearer than one with a single part changed."""
        if finding.chance.flaky:
            return [None] * len(cases)
        judged = self._try(cases, way)
        passing.extend(one.rendering.source for one in judged if one.rendering is not None and _passed(one))
        return [True if same_failure(tried, finding.failure) else False if _passed(tried) else None for tried in judged]

    def _try(self, cases: Sequence[Case], way: Way, attempt: int = 0) -> list[Tried]:
        return self.bench.try_cases(cases, way.home, way.form, data=way.data, attempt=attempt)


def _with_workaround(finding: Finding, text: str | None) -> Finding:
    """A switch that helps says more of where the fault is: beside an operator's lowering, or alone."""
    switched = workarounds.switched_by(text) if text else None
    found, culprit = finding.inside, finding.culprit
    if switched and (found is None or found.blamed is None or not found.alone):
        culprit = replace(culprit, compiler_pass=switched)
    elif switched and found and found.blamed and found.blamed.stage in KERNELS and switched not in str(found.name):
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
