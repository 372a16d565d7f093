"""Find out more about a reduced, verified repro: component, step, culprit, what is needed, what helps.

Each takes a few judgements.  What is left out because the budget is spent is listed as not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Backend, Case
from torchsleuth.case.program import render
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim, of
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.blaming import blame_operator, diverging_in
from torchsleuth.investigate.climbing import climb_ladder
from torchsleuth.investigate.located import Locator
from torchsleuth.investigate.own_code import blame_own_code
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.judgement import Judged
from torchsleuth.judge.match import Match
from torchsleuth.locate import ablation, workarounds
from torchsleuth.locate.inside import KERNELS
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.needed import Part, parts
from torchsleuth.reduce.neighbour import nearest
from torchsleuth.reduce.variations import proposed
from torchsleuth.write.findings import Finding


@dataclass(frozen=True)
class Known:
    """The Case that a reduction ended with, and how it is judged."""

    case: Case
    way: Way
    complete: bool  # nothing was left to try
    facts: Callable[[], Facts | None] = lambda: None  # what eager gives for each value, found out when it is needed


@dataclass(frozen=True)
class Afterwards:
    """Adds to a finding what can be found out by judging variants of its repro."""

    bench: Bench
    whole: tuple[Case, Way] | None  # the user's own Case, and how it fails; None: it was not seen to
    time_left: Callable[[], bool]
    say: Callable[[str], None]
    locating: bool = False  # also where nothing was reduced

    def learn(self, finding: Finding, known: Known | None) -> Finding:
        """`known` is None where nothing was reduced."""
        small = known or (Known(*self.whole, complete=False) if self.whole is not None and self.locating else None)
        if small is None:
            return replace(finding, not_known=(*finding.not_known, *_never_reduced(finding)))
        asker = Asker(self.bench, small.way, finding.chance, self.time_left)
        finding = climb_ladder(finding, small.case, asker, self.say)
        finding = Locator(asker, self.say).locate(finding, small.case)
        finding = blame_operator(finding, small.case, small.way, diverging_in(small.case, asker))
        finding = blame_own_code(finding, small.case, asker, self.say)
        if known is not None and finding.reproduced:
            finding = self._parts(finding, known, asker)
        if self.locating and self.whole is not None and not finding.chance.flaky:
            finding = self._settings(finding, *self.whole)
        return self._workaround(finding, small, asker)

    def _parts(self, finding: Finding, known: Known, asker: Asker) -> Finding:
        """Take out each part alone, and try other sizes and dtypes."""
        if not self.time_left():
            return replace(finding, not_known=(*finding.not_known, _PARTS))
        self.say("taking out each part of the repro, one at a time")
        everything = parts(known.case, known.facts() if self.time_left() else None)
        changes = [f"without {one.name}" for one in everything]
        judged = asker.judge([one.without for one in everything], changes)
        claims = list(_part_claims(everything, judged))
        unknown = list(_parts_not_known(everything, judged))
        if not finding.chance.flaky and self.time_left():
            variations = list(proposed(known.case))
            answers = asker.judge([one.case for one in variations], [one.what for one in variations])
            claims += _variation_claims([one.what for one in variations], answers)
            everything += [Part(one.what, one.case) for one in variations]
            judged += answers
        source, closest = self._neighbour(known, everything, judged)
        return replace(
            finding,
            claims=(*finding.claims, *claims, *closest),
            not_known=(*finding.not_known, *unknown),
            neighbour=source,
        )

    def _neighbour(
        self, known: Known, everything: Sequence[Part], judged: Sequence[Judged]
    ) -> tuple[str, tuple[Claim, ...]]:
        """Choose the script that passes and differs least; each of these differs in one thing."""

        def text(case: Case) -> str:
            form, data = known.way.form, known.way.data
            return render(case, form, data=data, refereed=case.check is not None).source  # as it was judged

        passing = [(part, one) for part, one in zip(everything, judged, strict=True) if one.passes and one.judgements]
        sources = [text(part.without) for part, _ in passing]
        difference, place = nearest(text(known.case), sources)
        if place is None:
            return "", ()
        part, one = passing[place]
        sentence = f"The nearest script that passes differs in one thing: {part.name}."
        return difference, (claim(ClaimKind.PASSES, Topic.NEIGHBOUR, part.name, sentence, *one.judgements),)

    def _settings(self, finding: Finding, case: Case, way: Way) -> Finding:
        """Switch off, one at a time, what the user's own Case has switched on."""
        asker = Asker(self.bench, way, finding.chance, self.time_left)
        chosen = list(ablation.switched_on(case))[:_MOST_SETTINGS]
        judged = asker.judge([one.apply(case) for one in chosen], [f"without {one.text}" for one in chosen])
        claims = []
        for one, answer in zip(chosen, judged, strict=True):
            name = one.text.removeprefix("remove ")
            if answer.passes:
                claims.append(
                    claim(ClaimKind.NEEDED, Topic.SETTING, name, f"Passes without {name}.", *answer.judgements)
                )
            elif answer.fails:
                claims.append(
                    claim(ClaimKind.FAILS, Topic.SETTING, name, f"Fails without {name}, too.", *answer.judgements)
                )
        return replace(finding, claims=(*finding.claims, *claims))

    def _workaround(self, finding: Finding, small: Known, asker: Asker) -> Finding:
        """Look for what helps the user's own Case: without one that fails, nothing can be seen to help."""
        if self.whole is None or not self.time_left():
            return finding
        whole, way = self.whole
        own = Asker(self.bench, way, finding.chance, self.time_left)
        self.say("looking for a workaround")
        inside = finding.inside
        helps = workarounds.find(
            small.case,
            whole,
            finding.failure.kind,
            finding.component,
            finding.culprit.op,
            inside.blamed if inside is not None and inside.alone else None,
            asker.judge,
            own.judge,
        )
        helps = helps or self._other_backend(finding, whole, own)
        return with_workaround(finding, helps) if helps is not None else finding

    def _other_backend(self, finding: Finding, whole: Case, own: Asker) -> workarounds.Helps | None:
        """The last resort: a backend on which the repro passes, tried on the user's own Case."""
        name = workarounds.other_backend(finding.rungs)
        if name is None:
            return None
        on_it = replace(whole, surroundings=replace(whole.surroundings, backend=Backend(name)))
        text = f'torch.compile(..., backend="{name}")'
        judged = own.judge([on_it], [f'backend="{name}"'])[0]
        return workarounds.Helps(text, judged) if judged.passes else None


_MOST_SETTINGS = 16
_PARTS = "which parts of the repro are needed: the budget was spent before each was taken out"


def _never_reduced(finding: Finding) -> Iterator[str]:
    if finding.repro is not None:
        yield "which operator is to blame: the graph was not reduced"


def _part_claims(everything: Sequence[Part], judged: Sequence[Judged]) -> Iterator[Claim]:
    for part, one in zip(everything, judged, strict=True):
        if not one.judgements:
            continue
        if one.match is Match.PASSED:
            yield claim(ClaimKind.NEEDED, Topic.PART, part.name, f"Passes without {part.name}.", *one.judgements)
        elif one.match is Match.SAME:
            yield claim(ClaimKind.FAILS, Topic.PART, part.name, f"Fails without {part.name}, too.", *one.judgements)


def _parts_not_known(everything: Sequence[Part], judged: Sequence[Judged]) -> Iterator[str]:
    words = {
        Match.OTHER: "without it, it fails in another way",
        Match.INVALID: "without it, eager fails",
        Match.UNKNOWN: "it was not judged without it",
    }
    for part, one in zip(everything, judged, strict=True):
        if one.match in words:
            yield f"whether {part.name} is needed: {words[one.match]}"


def _variation_claims(names: Sequence[str], judged: Sequence[Judged]) -> Iterator[Claim]:
    for name, one in zip(names, judged, strict=True):
        if one.judgements and one.match is Match.SAME:
            yield claim(ClaimKind.FAILS, Topic.VARIATION, name, f"Fails with {name}, too.", *one.judgements)
        elif one.judgements and one.match is Match.PASSED:
            yield claim(ClaimKind.PASSES, Topic.VARIATION, name, f"Passes with {name}.", *one.judgements)


def with_workaround(finding: Finding, helps: workarounds.Helps) -> Finding:
    """Add a workaround; a switch that helps says more of where the fault is."""
    text = f"Passes with the workaround: {'; '.join(helps.text.splitlines())}"
    said = claim(ClaimKind.HELPS, Topic.WORKAROUND, helps.text, text, *helps.judged.judgements)
    switched = workarounds.switched_by(helps.text)
    found, culprit = finding.inside, finding.culprit
    if switched and (found is None or found.blamed is None or not found.alone):
        culprit = replace(culprit, compiler_pass=switched)
    elif switched and found and found.blamed and found.blamed.stage in KERNELS and switched not in str(found.name):
        # Memory is shared, or not, according to the kernels that there are: the operator is only where it shows.
        memory = workarounds.is_about_memory(switched)
        name = f"{switched}, at the {found.name}" if memory else f"{found.name}, with {switched}"
        culprit = replace(culprit, compiler_pass=name)
    others = [one for one in finding.claims if one not in of(finding.claims, Topic.WORKAROUND)]
    return replace(finding, workaround=helps.text, culprit=culprit, claims=(*others, said))
