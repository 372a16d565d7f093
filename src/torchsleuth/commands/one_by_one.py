"""Each failure that was found, looked into: judged and reduced, and the program run once more where that says more.

A fault of our own on the way costs what it would have found out, not what is known already, nor the other failures.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from torchsleuth.case.failure import Kind
from torchsleuth.commands.run import Run, Seen
from torchsleuth.investigate import wrong_numbers
from torchsleuth.investigate.contained import Contained
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.placing import Means, Plan
from torchsleuth.investigate.rerun import Again
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
        notes.append("stopped by Ctrl-C: not all that was found was looked into")
    if len(seen.summary.found) > len(chosen):
        notes.append(f"{len(seen.summary.found) - len(chosen)} more failures were seen and not looked into")
    return LookedInto(tuple(findings), tuple(dict.fromkeys(notes)))


def _look_into(run: Run, seen: Seen, chosen: tuple[Found, ...], findings: list[Finding], notes: list[str]) -> None:
    settings = run.settings
    means = Means.of(chosen[0].process, os.environ, seen.ended.seconds, settings.jobs, settings.engines)
    stopped = run.interruption.stopped.is_set
    plan = Plan(settings.minimize, settings.budget, stopped, settings.locate, settings.capture == "1", settings.journal)
    with Contained(means, run.out, run.say, plan, run.known, run.faults) as investigation:
        run.interruption.ends(investigation.cancel)
        for number, found in enumerate(chosen, start=1):
            failure = found.failure
            what = failure.summary if failure.kind is Kind.ACCURACY else failure.fingerprint.line
            run.say(f"{failure.kind.value}: {what}")
            finding = investigation.look_into(found, f"f{number}", first=number == 1, others=len(chosen) - number)
            if not plan.keep_only:
                finding = _Further(run, seen, investigation, found, notes, first=number == 1).look(finding)
            findings.append(finding)


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
        if again is not None and not finding.reproduced and died_only_when_compared(found, self.seen.ended):
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
        in_eager = again.fails_in_eager()
        if in_eager:
            self.notes.append("the program was run once more with compilation off, and failed all the same")
            return replace(
                finding, eager_fails_too=True, why_not="eager itself fails: the program fails with compilation off"
            )
        if in_eager is False:
            finding = replace(finding, eager_fails_too=False)  # of a Case that was kept badly, it may seem so
        else:
            self.notes.append(wrong_numbers.EAGER_NOT_SEEN_TO_END)
        if found.failure.kind is Kind.CRASH and found.case is not None:
            say("running the program once more, keeping the values of every graph before it runs")
            crash = again.crash_with_values()
            self.notes.append("the program was run once more, to keep the values of the graph that crashed")
            return self.investigation.look_into(crash, finding.id, first=self.first) if crash is not None else finding
        if in_eager is None:  # what fails with every graph in eager may be the program's own fault
            died = found.failure.kind is Kind.CRASH and not found.component
            return replace(finding, why_not=_NO_GRAPH_NO_EAGER) if died else finding
        if found.failure.kind is not Kind.DYNAMO_ERROR and not found.component:
            return self._blamed(finding, again)
        return finding

    def _blamed(self, finding: Finding, again: Again) -> Finding:
        """Of a program that passes with compilation off."""
        say = self.run.say
        say("running the program once more, with every graph forced to eager")
        alike = again.fails_with_graphs_on("eager", self.found.failure)
        if alike:
            self.notes.append("the program fails in the same way with every graph run in eager: Dynamo is to blame")
            return replace(finding, component=Component.DYNAMO)
        if alike is False and finding.component is Component.UNKNOWN:
            blamed = wrong_numbers.below_dynamo(again, self.found.process, say)
            if blamed is not None:
                self.notes.append(f"the program does not fail so with every graph in eager, and {blamed.why}")
                return replace(finding, component=Component(blamed.component))
        return finding

    def _as_the_program_fails(self, finding: Finding, again: Again) -> Finding:
        """The death could not be had again; what the program itself says of its numbers may be."""
        in_eager = again.fails_in_eager()
        if in_eager is not False:
            self.notes.extend([] if in_eager else [wrong_numbers.EAGER_NOT_SEEN_TO_END])
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
    """What the error itself advises is a workaround where the program was seen to run with it."""
    for name, value in advised.settings(f"{finding.failure.summary}\n{finding.failure.text}").items():
        say(f"the error advises {name} = {value}: once more, with that")
        if again.passes_with({name: value}):
            return replace(finding, workaround=f"import {name.partition('config.')[0]}config\n{name} = {value}")
    return finding


def died_only_when_compared(found: Found, ended: Ended) -> bool:
    """Memory that is misused may give wrong numbers in one run and end the next."""
    return found.failure.kind is Kind.CRASH and ended.exit_code > 0 and not (ended.interrupted or ended.stopped)
