"""Where inside the compiler a Case fails, and which line of the user's source that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.failure import Kind
from torchsleuth.case.ir import Node, Source
from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import CannotRender, render
from torchsleuth.investigate.minimise import same_failure
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate import inside
from torchsleuth.locate.inside import Answer, Located, Setting
from torchsleuth.locate.ladder import Component
from torchsleuth.write.findings import Culprit, Finding

_DECOMPOSED = Backend("aot_eager_decomp_partition")
_OF_OPERATORS = ("lowering", "decomposition")


@dataclass(frozen=True)
class Locator:
    bench: Bench
    time_left: Callable[[], bool]
    say: Callable[[str], None]

    def locate(self, finding: Finding, case: Case, way: Way) -> Finding:
        """`case` fails as the finding says, judged in its `way`; the smaller it is, the sooner it is known."""
        stages = _stages(finding.component)
        if not stages or finding.chance.flaky or case.surroundings.cache_hit or not self.time_left():
            return finding
        self.say("looking inside the compiler: passes, lowerings, fusions")
        before = self.bench.judged
        raises = finding.failure.kind is Kind.COMPILE_ERROR
        found = inside.find(self._asking(finding, case, way), stages, raises=raises)
        if found is None:
            return finding
        if found.name:
            self.say(f"{found.name}, number {found.number} of {found.of} applications")
        node = _node_at(case, way, found)
        culprit = _culprit(finding.culprit, found, node)
        judged = self.bench.judged - before
        return replace(finding, inside=found, culprit=culprit, judged_inside=judged)

    def _asking(self, finding: Finding, case: Case, way: Way) -> inside.Ask:
        decomposed = finding.component is Component.DECOMPOSITION
        if decomposed:
            case = replace(case, surroundings=replace(case.surroundings, backend=_DECOMPOSED))

        def answer(tried: Tried) -> Answer:
            verdict = tried.outcome.verdict
            # On its own rung of the ladder a decomposition may fail in a way that the whole compiler says otherwise.
            fails = verdict is Verdict.FAILED if decomposed else same_failure(tried, finding.failure)
            return Answer(fails, verdict is Verdict.PASSED, tried.outcome.applied)

        def ask(settings: Sequence[Setting]) -> list[Answer]:
            if not self.time_left():
                return [Answer(False, False) for _ in settings]
            cases = [setting.applied_to(case) for setting in settings]
            return [answer(t) for t in self.bench.try_cases(cases, way.home, way.form, data=way.data)]

        return ask


def _stages(component: Component) -> tuple[str, ...]:
    if component is Component.INDUCTOR:
        return inside.INDUCTOR
    return inside.DECOMPOSITIONS if component is Component.DECOMPOSITION else ()


def _culprit(known: Culprit, found: Located, node: Node | None) -> Culprit:
    operator = found.blamed.name if found.blamed is not None and found.blamed.stage in _OF_OPERATORS else None
    source: Source | None = node.source if node is not None else None
    return Culprit(known.op or operator, found.name, source or known.source)


def _node_at(case: Case, way: Way, found: Located) -> Node | None:
    """The node that a line of the judged script computes: scripts name values as the graph does."""
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
