"""Name the operator to blame for a reduced failure, or say that it is not known."""

from __future__ import annotations

from dataclasses import replace

from torchsleuth.case.model import Case
from torchsleuth.case.program import Form
from torchsleuth.diagnose.claim import ClaimKind, Topic, of
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.located import node_at
from torchsleuth.judge.bench import Tried, Way
from torchsleuth.locate import culprit, divergence, named
from torchsleuth.locate.culprit import Evidence
from torchsleuth.locate.divergence import Diverging
from torchsleuth.write.findings import Culprit, Finding


def diverging_in(case: Case, asker: Asker) -> Diverging | None:
    """Compile a Case with every intermediate value returned; find the first that is wrong."""
    forward = case.check is not None and not case.phase.backward and asker.way.form is Form.COMPILE
    if not forward or asker.chance.flaky or not asker.time_left():
        return None

    def judge(opened: Case) -> Tried:
        way, changes = asker.way, ("every intermediate value returned",)
        tried = asker.bench.try_cases([opened], way.home, way.form, data=way.data, changes=changes)[0]
        asker.bench.keep(tried)
        return tried

    return divergence.find(case, judge)


NOT_TOLD = "which operator is to blame: the judgements do not tell one of them apart"


def blame_operator(finding: Finding, case: Case, way: Way, diverging: Diverging | None) -> Finding:
    """Set the culprit of a finding from its evidence; what an earlier guess said is dropped."""
    inside = finding.inside
    fails = of(finding.claims, Topic.REPRO, ClaimKind.FAILS)
    evidence = Evidence(
        tuple(i for one in fails for i in one.judgements),
        named.operator_named(finding.failure),
        inside,
        node_at(case, way, inside) if inside is not None and inside.alone else None,
        diverging,
    )
    blame = culprit.find(case, evidence)
    others = tuple(c for c in finding.claims if not (c.kind is ClaimKind.CULPRIT and c.topic is Topic.REPRO))
    step = inside.name if inside is not None and inside.alone else None
    if blame is None:
        # Where one step inside the compiler is to blame, what it works on is a fact of that step.
        source = named.line_named(finding.failure) or (evidence.node.source if evidence.node else None)
        unknown = tuple(dict.fromkeys((*finding.not_known, NOT_TOLD)))
        return replace(finding, culprit=Culprit(None, step, source), claims=others, not_known=unknown)
    source = named.line_named(finding.failure) or blame.node.source
    found = Culprit(blame.node.target, step, source)
    return replace(finding, culprit=found, claims=(*others, blame.claim))
