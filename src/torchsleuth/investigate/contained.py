"""An investigation in which a fault of our own does not cost what is found: that stays, or is found in a plainer way.

Where the reduction fails, the smallest Case that it had come to is judged and verified as it is, or else the whole;
where it fails to look closer at what was reproduced, that is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torchsleuth.case.folder import META
from torchsleuth.errors import JudgeBroken
from torchsleuth.investigate.afterwards import Known
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.blaming import blame_operator
from torchsleuth.investigate.climbing import climb_ladder
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.own_faults import Faults
from torchsleuth.investigate.placing import STOPPED, Means, Plan, lines_of
from torchsleuth.investigate.starts import Start, Subject
from torchsleuth.reduce.journal import Journal
from torchsleuth.watch.found import Found
from torchsleuth.write.findings import Finding


class Contained(Investigation):
    def __init__(
        self, means: Means, out: Path, say: Callable[[str], None], plan: Plan, known: Journal | None, faults: Faults
    ) -> None:
        super().__init__(means, out, say, plan, known)
        self._faults = faults

    def look_into(self, found: Found, name: str, *, first: bool, others: int = 0) -> Finding:
        try:
            return super().look_into(found, name, first=first, others=others)
        except Exception as error:
            why = self._faults.note(f"looking into {name}", error)
            home = self._out / "cases" / name
            if ((self._out if first else home) / "repro.py").exists():
                why += "; the repro.py that stands there was verified before"
            case = home if (home / META).exists() else None
            return Finding(name, found.failure, swallowed=found.swallowed, case=case, why_not=why)

    def _reduced(self, finding: Finding, subject: Subject) -> tuple[Finding, Start | None, Known | None]:
        try:
            return super()._reduced(finding, subject)
        except JudgeBroken:
            raise
        except Exception as error:
            self._faults.note(f"reducing {finding.id}", error)
        return self._as_far_as_it_came(finding, subject)

    def _as_far_as_it_came(self, finding: Finding, subject: Subject) -> tuple[Finding, Start | None, None]:
        noted = None if self._plan.journal else self._journal.smallest(ours=True)
        if noted is not None and noted.phase is subject.case.phase:
            placed = self._small(finding, replace(subject, case=replace(noted, failure=subject.case.failure)))
            if placed.reproduced or self._plan.stopped():
                return placed, None, None
        start, finding = self._start(finding, subject)
        return (finding if start is None else self._of_the_whole(finding, subject, start)), start, None

    def _small(self, finding: Finding, subject: Subject) -> Finding:
        start, finding = self._start(finding, replace(subject, inner=None))
        if start is None:
            return finding
        case, way, bench = start.case, start.way, subject.bench
        repro = self._placing.write(finding, case, way, subject.home, bench, first=subject.first, runs=3, reduced=True)
        if not repro.verified:
            return finding
        found = replace(finding, repro=repro, claims=repro.claims, lines=lines_of(case), judged=bench.judged)
        found = blame_operator(found, case, way, None)
        stopped = self._plan.stopped
        asker = Asker(bench, way, found.chance, lambda: not stopped())
        return self._faults.keep(
            found,
            f"asking which component is to blame for {finding.id}",
            lambda: climb_ladder(found, case, asker, self._say),
        )

    def _learn(
        self, finding: Finding, subject: Subject, start: Start | None, known: Known | None, cost: float
    ) -> Finding:
        learn = super()._learn
        try:
            return learn(finding, subject, start, known, cost)
        except JudgeBroken as error:
            self._say(f"no more is found out: {error}")
        except Exception as error:
            self._faults.note(f"looking closer at {finding.id}", error)
        return finding

    def _from_source(
        self, finding: Finding, found: Found, first: bool, environment: Mapping[str, str] | None
    ) -> Finding:
        attempt = super()._from_source
        try:
            return attempt(finding, found, first, environment)
        except JudgeBroken as error:
            return replace(finding, why_not=STOPPED if self._plan.stopped() else str(error))
        except Exception as error:
            self._faults.note("making the program's own file smaller", error)
        plan, self._plan = self._plan, replace(self._plan, minimize=False)
        try:
            whole = self._faults.keep(
                finding, "trying the program's own file", lambda: attempt(finding, found, first, environment)
            )
        finally:
            self._plan = plan
        return whole
