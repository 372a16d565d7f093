"""One reduction, whole: from a Case that was judged to fail to a verified repro of the least that fails.

On the way each smaller Case is noted in the journal and written as a checkpoint.  What has no operator too many is
verified and put in place at once, and before that whatever there is where it takes long.  What turns out to come and go
is reduced once more, with every candidate judged often enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case import checks, folder
from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.investigate import minimise
from torchsleuth.investigate.afterwards import Known
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.blaming import blame_operator
from torchsleuth.investigate.checkpoints import Checkpoints, Pace
from torchsleuth.investigate.climbing import climb_ladder
from torchsleuth.investigate.placing import Placing, lines_of, not_kept
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.match import Match
from torchsleuth.locate import named
from torchsleuth.locate.divergence import Diverging
from torchsleuth.reduce.chance import Chance, measure
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.reducer import Hints, counted
from torchsleuth.write.findings import Finding


@dataclass(frozen=True)
class Reduction:
    placing: Placing
    journal: Journal
    bench: Bench
    home: Path
    whole: Case
    inner: Case | None
    best: Tried  # how the whole was judged
    way: Way  # the same, for what is judged next
    first: bool
    cost: float  # seconds that a verification will take, about
    until: float  # of time.monotonic
    facts: Facts | None = None  # None: found out by a probe
    diverging: Diverging | None = None  # of wrong numbers in a larger Case: where they begin

    def run(self, finding: Finding) -> tuple[Finding, Known | None]:
        """Without a repro, or with the one that it had, where nothing could be verified."""
        before, believed = finding.judged, finding.chance
        plan, means = self.placing.plan, self.placing.means
        checkpoints = Checkpoints(self.bench, self.placing.say, self.home)
        pace = Pace(self.cost, operators(self.whole.graph), now=means.engines.now)
        hopeless = False  # nothing is verified, and what was to be first fails in no fresh process
        aside = 0  # judgements that had nothing to do with making it smaller
        verified: list[tuple[Case, Way]] = []  # what took its place on the way, the last of them

        def better(smaller: Case, way: Way) -> None:
            if (way.form, way.data) == (self.way.form, self.way.data):
                self.journal.note_smaller(smaller)
            checkpoints.write(smaller, way, self.placing.text(finding, smaller, way, reduced=True)[1])
            if finding.reproduced:
                pause(smaller, way)

        def pause(best: Case, way: Way) -> None:
            if pace.due(operators(best.graph)):
                verify(best, way)

        def verify(case: Case, way: Way) -> None:
            nonlocal finding, hopeless, aside, verified
            if plan.stopped() or (finding.repro and finding.repro.ops <= operators(case.graph)):
                return
            judged, had = self.bench.judged, finding.repro
            with pace.spending(operators(case.graph)):
                finding = self._put_in_place(finding, self._with_tolerance(case, way), way, runs=1)
            verified = [(case, way)] if finding.repro is not had else verified
            hopeless = not finding.reproduced and not finding.chance.flaky
            aside += self.bench.judged - judged

        wanted = minimise.Means(
            self.bench, self.way.home, means.python, means.environment, means.path, means.jobs, self.until,
            lambda: plan.stopped() or hopeless, self.placing.say, lambda: finding.chance, better, pause, verify,
            lambda: aside, self.diverging,
        )  # fmt: skip
        hints = Hints(named.operator_named(finding.failure), self.best.outcome.noted)
        found = minimise.reduce_case(
            self.whole, finding.failure, self.way.form, self.way.data, hints, wanted, self.inner, self.facts
        )
        if _newly_flaky(finding.chance, believed) and not plan.stopped():
            return self.run(replace(finding, judged=before + found.judged + aside))
        smallest, way = self._smallest_known(found)
        finding = replace(
            finding,
            judged=before + found.judged + aside,
            judged_to_smallest=before + found.judged_to_smallest,
            divergence=_by_operator(found.diverging),
        )
        for one, its in ((smallest, way), *verified, *checkpoints.larger_than(smallest)):
            if plan.stopped():
                break
            known = one is smallest or any(one is case for case, _ in verified)
            if verified and not known and finding.repro and finding.repro.ops <= operators(one.graph):
                continue  # what simplifying made of it is no good, and that is no reason for more operators
            one = self._with_tolerance(one, its)
            placed = self._put_in_place(finding, one, its, runs=3)
            if placed.repro is not finding.repro:
                complete = found.complete and operators(one.graph) <= operators(smallest.graph)
                if not complete:
                    placed = replace(placed, not_known=(*placed.not_known, NOT_MINIMAL))
                return placed, Known(one, its, complete, self._facts(one))
            finding = placed
            if _newly_flaky(finding.chance, believed):
                return self.run(finding)
        return finding, None

    def _with_tolerance(self, case: Case, way: Way) -> Case:
        """Of a Case that was judged, so the answer is remembered."""
        if case.check is None:
            return case
        return minimise.with_tolerance(case, self.bench.try_case(case, way.home, way.form, data=way.data))

    def _facts(self, case: Case) -> Callable[[], Facts]:
        """Return how to find out what eager gives for each value of a Case that stands in `smallest`."""
        return lambda: minimise.probe(case, self._probing(), self.home / "smallest")

    def _probing(self) -> minimise.Means:
        means, plan = self.placing.means, self.placing.plan
        return minimise.Means(
            self.bench,
            self.home,
            means.python,
            means.environment,
            means.path,
            means.jobs,
            self.until,
            plan.stopped,
            self.placing.say,
        )

    def _put_in_place(self, finding: Finding, case: Case, way: Way, *, runs: int) -> Finding:
        """Return the finding with a repro of `case`, if that is verified; else the finding as it was."""
        whole = case.graph is self.whole.graph and operators(case.graph) == finding.ops_before
        reduced = runs > 1 or not whole
        repro = self.placing.write(
            finding, case, way, self.home, self.bench, first=self.first, runs=runs, reduced=reduced
        )
        if not repro.verified:
            self.placing.say(f"the smaller script is not good enough: {repro.reason}")
            if repro.undecided and not finding.chance.flaky:
                finding = replace(finding, chance=measured(self.bench, case, way, finding.failure, self.placing.say))
            return finding
        if runs == 1:
            self.placing.say(f"verified, and in place: {counted(case)}; Ctrl-C keeps it")
        folder.save(case, self.home / "smallest")
        rungs = () if finding.repro is not None else finding.rungs
        finding = replace(
            finding,
            repro=repro,
            claims=repro.claims,
            not_known=tuple(not_kept(case)),
            lines=lines_of(case),
            rungs=rungs,
        )
        finding = blame_operator(finding, case, way, None)
        if not self.placing.plan.stopped():
            stopped = self.placing.plan.stopped
            asker = Asker(self.bench, way, finding.chance, lambda: not stopped())
            finding = climb_ladder(finding, case, asker, self.placing.say)
            repro = self.placing.say_where(repro, finding, case, way, reduced=reduced)
        return replace(finding, repro=repro)

    def _smallest_known(self, found: minimise.Reduced) -> tuple[Case, Way]:
        """What this reduction came to, or what an earlier one had when it was cut short."""
        noted, now = self.journal.smallest(ours=self.placing.plan.journal is None), found.case
        if noted is None or operators(noted.graph) >= operators(now.graph) or noted.phase is not now.phase:
            return now, found.way
        # A journal that came from elsewhere brings no code that the user was not asked about.
        known = {code.source for code in checks.codes(self.whole.surroundings)}
        if not {code.source for code in checks.codes(noted.surroundings)} <= known:
            return now, found.way
        return replace(noted, failure=now.failure), self.way


NOT_MINIMAL = "whether the repro is minimal: the reduction ended before everything was tried"


def _newly_flaky(chance: Chance, believed: Chance) -> bool:
    """So what passed may have passed by chance."""
    return chance.flaky and not believed.flaky


def measured(bench: Bench, case: Case, way: Way, failure: Failure, say: Callable[[str], None]) -> Chance:
    """How often a Case fails that failed and passed."""

    def judge(attempts: Sequence[int]) -> list[Match]:
        tried = bench.try_again(case, way.home, way.form, attempts, data=way.data)
        return [one.matches(failure) for one in tried]

    chance = measure(judge)
    each = "does not fail each time" if chance.flaky else "fails each time that it is judged"
    say(f"it {each}: {chance.failed} of {chance.runs} judgements")
    return chance


def _by_operator(found: Diverging | None) -> tuple[tuple[str, float, float], ...]:
    if found is None:
        return ()
    return tuple((f"{n.name} ({n.target.rpartition('.')[2]})", *found.errors[n.name]) for n in found.wrong)
