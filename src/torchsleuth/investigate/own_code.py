"""Tell a fault of torch from one of the program's own code that the compiler runs: operators, passes, patches.

Code that nothing in the graph refers to (a pass in a setting, a patch of the compiler) is taken out alone.  An operator
cannot be; where its fake kernel is not seen to agree with its real one, neither torch nor the program is blamed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchsleuth.case.model import Backend, Case, Code
from torchsleuth.diagnose.claim import ClaimKind, Topic, claim
from torchsleuth.investigate.asking import Asker
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component
from torchsleuth.write.findings import Culprit, Finding

_FAKE_CHECK = Backend("sleuth_fake")
_LOOSE = ("patch of", "config ")
_OPERATOR = "operator "
_OF_TORCH = (Component.AOT, Component.DECOMPOSITION, Component.PARTITIONER, Component.INDUCTOR)


def blame_own_code(finding: Finding, case: Case, asker: Asker, say: Callable[[str], None]) -> Finding:
    """Correct the component and the culprit of a finding whose Case holds code of the program's own."""
    codes = case.surroundings.code
    loose = [code for code in codes if code.what.startswith(_LOOSE)]
    operators = [code for code in codes if code.what.startswith(_OPERATOR)]
    if finding.component not in (*_OF_TORCH, Component.UNKNOWN) or not (loose or operators):
        return finding
    say("checking the program's own code that the compiler runs")
    finding = _without_each(finding, case, loose, asker)
    if operators and finding.component is not Component.USER:
        finding = _operators(finding, case, operators, asker)
    return finding


def _without_each(finding: Finding, case: Case, loose: list[Code], asker: Asker) -> Finding:
    now = case.surroundings
    cases = [replace(case, surroundings=replace(now, code=tuple(c for c in now.code if c is not one))) for one in loose]
    names = [_name(code) for code in loose]
    for code, name, judged in zip(loose, names, asker.judge(cases, [f"without {n}" for n in names]), strict=True):
        if judged.passes:
            said = claim(ClaimKind.NEEDED, Topic.PART, name, f"Passes without {name}.", *judged.judgements)
            text = f"The program's own code is to blame: passes without {name}."
            blame = claim(ClaimKind.CULPRIT, Topic.REPRO, name, text, *judged.judgements)
            culprit = replace(finding.culprit, op=code.name)
            kept = tuple(c for c in finding.claims if not (c.kind is ClaimKind.CULPRIT and c.topic is Topic.REPRO))
            return replace(finding, component=Component.USER, culprit=culprit, claims=(*kept, said, blame))
        if judged.fails:
            said = claim(ClaimKind.FAILS, Topic.PART, name, f"Fails without {name}, too.", *judged.judgements)
            finding = replace(finding, claims=(*finding.claims, said))
        else:
            finding = _nobody(finding, f"{name} was not taken out with a result that says something")
    return finding


def _operators(finding: Finding, case: Case, operators: list[Code], asker: Asker) -> Finding:
    [runs] = asker.on_backends(case, [_FAKE_CHECK])
    if runs and all(_match(tried) is Match.PASSED for tried in runs):
        judgements = [tried.judgement for tried in runs if tried.judgement is not None]
        text = 'Every fake kernel agrees with the real one (backend="sleuth_fake").'
        said = claim(ClaimKind.PASSES, Topic.PART, "fake kernels", text, *judgements)
        return replace(finding, claims=(*finding.claims, said))
    names = ", ".join(_name(code) for code in operators)
    failed = next((t.outcome.failure for t in runs if t.outcome.failure is not None), None)
    shown = f'; backend="sleuth_fake" reports: {failed.summary}' if failed is not None and failed.summary else ""
    return _nobody(finding, f"{names} cannot be taken out alone{shown}")


def _nobody(finding: Finding, why: str) -> Finding:
    kept = tuple(c for c in finding.claims if c.kind is not ClaimKind.CULPRIT)
    unknown = f"whether torch or the program's own code is to blame: {why}"
    return replace(
        finding,
        component=Component.UNKNOWN,
        culprit=Culprit(source=finding.culprit.source),
        inside=None,
        claims=kept,
        not_known=(*finding.not_known, unknown),
    )


def _match(tried: Tried) -> Match:
    return tried.judgement.match if tried.judgement is not None else Match.UNKNOWN


def _name(code: Code) -> str:
    """Name a piece of code as its author would: `operator mylib.foo`, `the patch of CppOverrides.tanh`."""
    if code.what.startswith("patch of"):
        return f"the patch of {code.name}"
    return code.what if code.what.startswith(_OPERATOR) else f"{code.what.removeprefix('config ')} = {code.name}"
