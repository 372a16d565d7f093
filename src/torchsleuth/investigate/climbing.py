"""Run a failing Case on the backends of the ladder, and say what that shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from torchsleuth.case.model import Case
from torchsleuth.case.program import Form
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim, of
from torchsleuth.investigate.asking import Asker
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component, Ladder, Rung, climb
from torchsleuth.write.findings import Finding


def climb_ladder(finding: Finding, case: Case, asker: Asker, say: Callable[[str], None]) -> Finding:
    """Add the component and the rungs that show it; a ladder that was cut short adds nothing."""
    if asker.way.form is Form.INNER:
        return replace(finding, component=Component.INDUCTOR)
    say("running it with backend eager, aot_eager and aot_eager_decomp_partition")
    if not asker.time_left():
        return replace(finding, not_known=(*finding.not_known, OUT_OF_TIME))
    ladder = climb(case, finding.failure, lambda backends: asker.on_backends(case, backends))
    rest = [one for one in finding.claims if one.topic is not Topic.BACKEND]
    return replace(
        finding,
        component=ladder.component,
        rungs=ladder.rungs,
        claims=(*rest, *_claims(ladder), *_own(finding, ladder)),
        not_known=(*finding.not_known, *_not_known(ladder)),
    )


OUT_OF_TIME = "which component is to blame: the budget was spent before it was run with other backends"


def _claims(ladder: Ladder) -> Iterator[Claim]:
    rungs = [*ladder.rungs, *([ladder.unpartitioned] if ladder.unpartitioned else [])]
    for rung in rungs:
        if not rung.judgements:
            continue
        name = f'backend="{rung.backend}"'
        if rung.match is Match.SAME:
            yield claim(ClaimKind.FAILS, Topic.BACKEND, rung.backend, f"Fails with {name}.", *rung.judgements)
        elif rung.match is Match.PASSED:
            yield claim(ClaimKind.PASSES, Topic.BACKEND, rung.backend, f"Passes with {name}.", *rung.judgements)


def _own(finding: Finding, ladder: Ladder) -> Iterator[Claim]:
    """The backend of the repro itself, which its verification shows to fail."""
    own = ladder.rungs[-1].backend
    for one in of(finding.claims, Topic.REPRO, ClaimKind.FAILS):
        yield Claim(ClaimKind.FAILS, Topic.BACKEND, own, f'Fails with backend="{own}".', one.judgements)


def _not_known(ladder: Ladder) -> Iterator[str]:
    for rung in ladder.rungs:
        if rung.match not in (Match.SAME, Match.PASSED):
            yield f'whether it passes with backend="{rung.backend}": {_how(rung)}'
    if ladder.component is Component.UNKNOWN:
        yield "which component is to blame: not every backend below the failing one passes"


def _how(rung: Rung) -> str:
    words = {
        Match.OTHER: "it fails in another way there",
        Match.INVALID: "no valid script runs it so",
        Match.UNKNOWN: "it did not come to an end that says something",
    }
    return f"{words[rung.match]} ({rung.said})"[:300]
