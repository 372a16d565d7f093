"""Each failure that was found, looked into: judged and reduced, and the program run once more where that says more.

A fault of our own on the way costs what it would have found out, not what is known already, nor the other failures.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from torchsleuth.case.failure import Kind
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.run import Run, Seen
from torchsleuth.commands.verdict import told_of_suspect
from torchsleuth.investigate import wrong_numbers
from torchsleuth.investigate.blame import who_is_to_blame
from torchsleuth.investigate.contained import Contained
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.placing import STOPPED, Means, Plan
from torchsleuth.investigate.repeating import count_failures
from torchsleuth.investigate.rerun import Again
from torchsleuth.judge.match import Match
from torchsleuth.locate import advised
from torchsleuth.locate.ladder import Component
from torchsleuth.watch.found import Found
from torchsleuth.watch.launcher import Ended
from torchsleuth.write.findings import Finding

Say = Callable[[str], None]
_MOST_FAILURES = 5
_NO_GRAPH_NO_EAGER = "no graph was kept to run alone, and with compilation off the program was not seen to end"


@dataclass(frozen=True)
class LookedInto:
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def looked_into(run: Run, seen: Seen) -> LookedInto:
    """A Finding for each of the failures, or for as many as are looked into."""
    chosen = seen.summary.found[:_MOST_FAILURES]
    findings: list[Finding] = []
    notes: list[str] = []
    run.faults.keep(None, "looking into what was found", lambda: _look_into(run, seen, chosen, findings, notes))
    for number, found in enumerate(chosen[len(findings) :], start=len(findings) + 1):
        why = "torchsleuth itself failed before this was looked into"
        findings.append(Finding(f"f{number}", found.failure, swallowed=found.swallowed, why_not=why))
    if run.interruption.stopped.is_set():
        notes.append(f"{run.interruption.said}: not all that was found was looked into")
    if len(seen.summary.found) > len(chosen):
        notes.append(f"{len(seen.summary.found) - len(chosen)} more failures were seen and not looked into")
    return LookedInto(tuple(findings), tuple(dict.fromkeys(notes)))


def _look_into(run: Run, seen: Seen, chosen: tuple[Found, ...], findings: list[Finding], notes: list[str]) -> None:
    settings = run.settings
    means = Means.of(chosen[0].process, os.environ, seen.ended.seconds, settings.jobs, settings.engines)
    stopped = run.interruption.stopped.is_set
    left = run.interruption.begin(settings.budget).left()
    plan = Plan(settings.minimize, left, stopped, settings.locate, settings.capture == "1", settings.journal)
    with Contained(means, run.out, run.say, plan, run.known, run.faults) as investigation:
        run.interruption.ends(investigation.cancel)
        for number, found in enumerate(chosen, start=1):
            failure = found.failure
            what = failure.summary if failure.kind is Kind.ACCURACY else failure.fingerprint.line
            run.say(f"{failure.kind.value}: {what}")
            finding = investigation.look_into(found, f"f{number}", first=number == 1, others=len(chosen) - number)
            known = "" if stopped() else finding.why_not
            if not plan.keep_only:
                finding = _Further(run, seen, investigation, found, notes, first=number == 1).look(finding)
            finding = _cut_short(finding, known, run.interruption)
            findings.append(told_of_suspect(finding, seen.ended) if found.suspect else finding)


def _cut_short(finding: Finding, known: str, interruption: Interruption) -> Finding:
    """The finding with what ended the work; `known` is why there is no repro, as far as that was known before."""
    if not interruption.stopped.is_set():
        return finding
    why = f"{interruption.said} before it was known"
    repro = finding.repro
    if repro is not None and repro.reason == STOPPED:
        finding = replace(finding, repro=replace(repro, reason=why))
    if finding.reproduced or finding.eager_fails_too:
        return finding
    return replace(finding, why_not=f"{known}; {interruption.said} before more was known" if known else why)


@dataclass(frozen=True)
class _Further:
    """One failure whose Case was looked into: what the program and its own file tell beyond that."""

    run: Run
    seen: Seen
    investigation: Investigation
    found: Found
    notes: list[str] = field(repr=False)
    first: bool

    def look(self, finding: Finding) -> Finding:
        again, found = self.run.again, self.found
        if not (finding.reproduced or found.inside or again is None or self._stopped):
            finding = self._keep(finding, self._once_more, again)
        if not (finding.reproduced or finding.eager_fails_too or self._stopped):
            finding = self.investigation.from_source(finding, found, first=self.first)
        died = died_only_when_compared(found, self.seen.ended)
        if again is not None and died and not (finding.reproduced or self._stopped):
            finding = self._keep(finding, self._as_the_program_fails, again)
        if again is not None and finding.workaround is None and not (finding.eager_fails_too or self._stopped):
            finding = self._keep(finding, self._as_advised, again)
        return finding

    @property
    def _stopped(self) -> bool:
        return self.run.interruption.stopped.is_set()

    def _keep(self, finding: Finding, step: Callable[[Finding, Again], Finding], again: Again) -> Finding:
        doing = f"running the program once more, for {finding.id}"
        return self.run.faults.keep(finding, doing, lambda: step(finding, again))

    def _once_more(self, finding: Finding, again: Again) -> Finding:
        """What only the program itself can tell: does it fail in eager, is Dynamo to blame, what were the values?"""
        found, say = self.found, self.run.say
        say("running the program once more, with compilation off")
        in_eager = again.without_compiling(found.failure)
        if in_eager.match is Match.SAME:
            self.notes.append("the program was run once more with compilation off, and failed in the same way")
            return replace(
                finding, eager_fails_too=True, why_not="eager itself fails: the program fails with compilation off"
            )
        passed = in_eager.match is Match.PASSED
        if passed:
            finding = replace(finding, eager_fails_too=False)  # of a Case that was kept badly, it may seem so
        else:
            self.notes.append(wrong_numbers.not_passed_in_eager(in_eager))
        if found.failure.kind is Kind.CRASH and found.case is not None:
            say("running the program once more, keeping the values of every graph before it runs")
            crash = again.crash_with_values()
            self.notes.append("the program was run once more, to keep the values of the graph that crashed")
            if crash is None or not crash.failure.fingerprint.same_as(found.failure.fingerprint):
                return finding  # it did not die, or by another signal
            return self.investigation.look_into(crash, finding.id, first=self.first)
        if not passed:  # what fails with every graph in eager may be the program's own fault
            died = found.failure.kind is Kind.CRASH and not found.component and in_eager.end.status is None
            return replace(finding, why_not=_NO_GRAPH_NO_EAGER) if died else finding
        if found.failure.kind is Kind.ACCURACY and not found.component:
            return self._of_wrong_numbers(finding, again)
        if found.failure.kind is not Kind.DYNAMO_ERROR and not found.component:
            return self._blamed(finding, again)
        return finding

    def _blamed(self, finding: Finding, again: Again) -> Finding:
        """Of a program that passes with compilation off."""
        say, failure = self.run.say, self.found.failure
        repeats = count_failures(again, say, failure)
        blamed = who_is_to_blame(again, self.found.process, say, repeats, failure)
        if blamed is None:
            self.notes.append(f"{repeats.text}; with which part of the compiler it begins to fail is not known")
            return finding
        if blamed.component == Component.DYNAMO.value or finding.component is Component.UNKNOWN:
            self.notes.append(f"the program passes with compilation off, and {blamed.why}")
            return replace(finding, component=Component(blamed.component))
        return finding

    def _of_wrong_numbers(self, finding: Finding, again: Again) -> Finding:
        """Of a graph that was wrong in the program and is not wrong alone."""
        if not again.first.status:
            return finding  # the program does not compare anything itself: how it ends says nothing
        looked = wrong_numbers.whose(replace(self.seen.summary, found=()), again, self.run.say)
        self.notes.extend(looked.notes)
        if looked.in_eager is Match.SAME:
            return replace(finding, eager_fails_too=True, why_not=looked.notes[-1])
        blamed = next((Component(found.component) for found in looked.summary.found), Component.UNKNOWN)
        known = finding.component is not Component.UNKNOWN and blamed is not Component.DYNAMO
        return finding if known else replace(finding, component=blamed)

    def _as_the_program_fails(self, finding: Finding, again: Again) -> Finding:
        """The death could not be had again; what the program itself says of its numbers may be."""
        in_eager = again.without_compiling()
        if in_eager.match is not Match.PASSED:
            same = in_eager.match is Match.SAME
            self.notes.extend([] if same else [wrong_numbers.not_passed_in_eager(in_eager)])
            return finding
        looked = wrong_numbers.whose(replace(self.seen.summary, found=()), again, self.run.say)
        self.notes.extend(looked.notes)
        if not looked.summary.found:
            return finding
        other = looked.summary.found[0]
        judged = self.investigation.look_into(other, finding.id, first=self.first)
        return self.investigation.from_source(judged, other, first=self.first)

    def _as_advised(self, finding: Finding, again: Again) -> Finding:
        return as_advised(finding, again, self.run.say)


def as_advised(finding: Finding, again: Again, say: Say) -> Finding:
    """What the error itself advises is a workaround where compiled graphs ran with it and nothing showed the failure.

    An exit status of 0 says nothing of a program that catches the error, or that was told to suppress it.
    """
    for name, value in advised.settings(f"{finding.failure.summary}\n{finding.failure.text}").items():
        say(f"the error advises {name} = {value}: once more, with that")
        outcome = again.with_settings({name: value}, finding.failure)
        if outcome.match is Match.PASSED and outcome.end.graphs and not outcome.end.failures:
            return replace(finding, workaround=f"import {name.partition('config.')[0]}config\n{name} = {value}")
    return finding


def died_only_when_compared(found: Found, ended: Ended) -> bool:
    """Memory that is misused may give wrong numbers in one run and end the next."""
    return found.failure.kind is Kind.CRASH and ended.exit_code > 0 and not (ended.interrupted or ended.stopped)
