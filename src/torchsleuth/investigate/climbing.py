"""The ladder with a real Judge: which component is to blame for a Case that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import Form
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.locate.ladder import Component, Ladder, climb
from torchsleuth.write.findings import Finding


def climbed(
    bench: Bench, case: Case, way: Way, finding: Finding, stopped: Callable[[], bool], say: Callable[[str], None]
) -> Finding:
    """The finding with its component and the rungs that say so; a ladder that was cut short says nothing."""
    ladder = _ladder(bench, case, way, finding, stopped, say)
    return finding if stopped() else replace(finding, component=ladder.component, rungs=ladder.rungs)


def _ladder(
    bench: Bench, case: Case, way: Way, finding: Finding, stopped: Callable[[], bool], say: Callable[[str], None]
) -> Ladder:
    if way.form is Form.INNER:
        return Ladder(Component.INDUCTOR, ())
    say("climbing the ladder: eager, aot_eager, aot_eager_decomp_partition")

    def judge(backends: Sequence[Backend]) -> list[Outcome]:
        if not finding.chance.flaky:
            return [t.outcome for t in bench.try_all(case, way.home, way.form, list(backends), data=way.data)]
        return [often(replace(case, surroundings=replace(case.surroundings, backend=b))) for b in backends]

    def often(rung: Case) -> Outcome:
        if stopped():
            return Outcome(Verdict.HARNESS_ERROR)
        tried = bench.try_again(rung, way.home, way.form, range(finding.chance.repeats), data=way.data)
        return next((t.outcome for t in tried if t.outcome.verdict is Verdict.FAILED), tried[0].outcome)

    return climb(case, finding.failure, judge)
