"""Find where inside the compiler a Case fails, and the node of the graph that is mistreated there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.failure import Kind
from torchsleuth.case.ir import Node
from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import CannotRender, render
from torchsleuth.investigate.asking import Asker
from torchsleuth.judge.bench import Tried, Way
from torchsleuth.judge.match import Match
from torchsleuth.locate import inside
from torchsleuth.locate.inside import Answer, Located, Setting
from torchsleuth.locate.ladder import Component
from torchsleuth.write.findings import Finding

_DECOMPOSED = Backend("aot_eager_decomp_partition")
OUT_OF_TIME = "which step inside the compiler is to blame: the budget was spent before it was looked into"


@dataclass(frozen=True)
class Locator:
    """Searches the compiler's steps for one Case."""

    asker: Asker
    say: Callable[[str], None]

    def locate(self, finding: Finding, case: Case) -> Finding:
        """Add the step to blame; `case` fails as the finding says, and the smaller it is, the sooner it is found."""
        own = case.surroundings.backend
        stages = _stages(finding.component, inductor=own.registered and own.name == "inductor")
        if not stages or finding.chance.flaky or case.surroundings.cache_hit:
            return finding
        if not self.asker.time_left():
            return replace(finding, not_known=(*finding.not_known, OUT_OF_TIME))
        self.say("looking inside the compiler: passes, lowerings, fusions")
        before = self.asker.bench.judged
        raises = finding.failure.kind is Kind.COMPILE_ERROR
        found = inside.find(self._ask(finding, case), stages, raises=raises)
        judged = self.asker.bench.judged - before
        if found is None:
            why = OUT_OF_TIME if not self.asker.time_left() else _HIDDEN
            return replace(finding, judged_inside=judged, not_known=(*finding.not_known, why))
        if found.alone and found.name:
            self.say(f"{found.name}, number {found.number} of {found.of} compiler steps")
        component = finding.component
        if component is Component.UNKNOWN and found.alone:
            component = Component.INDUCTOR  # it passes when one of Inductor's steps alone is skipped
        return replace(
            finding,
            component=component,
            inside=found,
            judged_inside=judged,
            claims=(*finding.claims, *found.claims),
            not_known=(*finding.not_known, *found.not_known),
        )

    def _ask(self, finding: Finding, case: Case) -> inside.Ask:
        if finding.component is Component.DECOMPOSITION:
            case = replace(case, surroundings=replace(case.surroundings, backend=_DECOMPOSED))

        def ask(settings: Sequence[Setting]) -> list[Answer]:
            cases = [setting.applied_to(case) for setting in settings]
            runs = self.asker.runs(cases, [setting.change for setting in settings])
            return [_answer(one) for one in runs]

        def _answer(runs: Sequence[Tried]) -> Answer:
            if not runs:
                return Answer(Match.UNKNOWN)
            self.asker.bench.keep(runs[0])
            return Answer(runs[0].matches(finding.failure), runs[0].outcome.applied, runs[0].judgement)

        return ask


_HIDDEN = "which step inside the compiler is to blame: it does not fail in the same way while the steps are listed"


def _stages(component: Component, *, inductor: bool) -> tuple[str, ...]:
    if component is Component.INDUCTOR or (component is Component.UNKNOWN and inductor):
        return inside.INDUCTOR
    return inside.DECOMPOSITIONS if component is Component.DECOMPOSITION else ()


def node_at(case: Case, way: Way, found: Located) -> Node | None:
    """Find the node that the blamed step works on; None where that cannot be told.

    The step's line is one of the judged script, and scripts name values as the graph does.
    """
    if found.blamed is None or not found.blamed.line:
        return None
    judged = Setting(()).applied_to(case)
    try:
        text = render(judged, way.form, data=way.data, refereed=case.check is not None).source.splitlines()
    except CannotRender:
        return None
    # The call of the switchboard is one line in every Setting, so lines of one are lines of all.
    line = text[found.blamed.line - 1] if found.blamed.line <= len(text) else ""
    assigned = re.match(r"\s*(\w+)(?:, \w+)* = ", line)
    nodes = {n.name: n for g in case.graph.all_graphs() for n in g.nodes if n.is_call}
    if assigned and assigned.group(1) in nodes:
        return nodes[assigned.group(1)]
    called = [n for n in nodes.values() if re.search(rf"\b{re.escape(n.target.rpartition('.')[2])}\(", line)]
    return called[0] if len(called) == 1 else None
