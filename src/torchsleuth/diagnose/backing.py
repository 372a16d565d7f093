"""Check, without running anything, that a result says only what its Claims say, and its Claims what is on record.

A result.json may have been edited since it was written, or come from somebody else.  `torchsleuth audit` makes the
Judgements again; what is found here has no Judgement that could be made again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, allows, of
from torchsleuth.judge.judgement import NAME, Judgement
from torchsleuth.judge.match import Match


@dataclass(frozen=True)
class Unbacked:
    """Something that result.json says and no Claim backs."""

    entry: str  # the key of result.json
    text: str
    why: str


class Record:
    """The Judgements of a folder, by number."""

    def __init__(self, judgements: Sequence[Judgement]) -> None:
        self._by_id = {one.id: one for one in judgements}
        self._twice = {name for name, count in Counter(one.id for one in judgements).items() if count > 1}

    def of(self, claim: Claim) -> list[Judgement]:
        return [self._by_id[name] for name in claim.judgements if name in self._by_id]

    def fault(self, claim: Claim) -> str:
        """Say why a Claim is not backed by what is on record; empty where it is."""
        if not claim.judgements:
            return "it names no judgement"
        for name in claim.judgements:
            if name not in self._by_id:
                return f"{NAME} holds no {name}"
            if name in self._twice:
                return f"{NAME} holds {name} more than once"
        return _misfit(claim, self.of(claim)) or _misquoted(claim, self.of(claim))


def _misfit(claim: Claim, judgements: Sequence[Judgement]) -> str:
    for one in judgements:
        if not allows(claim.kind, one.match):
            return f"{one.id} is on record as {one.match.value!r}, which does not back it"
        consistent = 1 <= one.failed_runs <= one.runs if one.match is Match.SAME else one.failed_runs == 0 < one.runs
        if not consistent:
            return f"{one.id} contradicts itself: {one.match.value!r} with {one.failed_runs} of {one.runs} runs failed"
    if claim.topic is Topic.INSIDE and claim.kind is ClaimKind.CULPRIT:
        seen = {one.match for one in judgements}
        if seen != {Match.SAME, Match.PASSED}:
            return "it takes a run that fails and one that passes"
    return ""


_VERBS = {
    ClaimKind.FAILS: "fail",
    ClaimKind.PASSES: "passes",
    ClaimKind.NEEDED: "passes",
    ClaimKind.HELPS: "passes",
}
_NAMED_IN_TEXT = (Topic.BACKEND, Topic.PART, Topic.VARIATION, Topic.SETTING, Topic.NEIGHBOUR)


def _misquoted(claim: Claim, judgements: Sequence[Judgement]) -> str:
    """Compare the sentence with what it is about, and its numbers with the record."""
    if _VERBS.get(claim.kind, "") not in claim.text.lower():
        return f"the sentence does not say what a claim of kind {claim.kind.value!r} says"
    if claim.topic in _NAMED_IN_TEXT and claim.about not in claim.text:
        return f"the sentence is not about {claim.about}"
    counted = re.search(r"in (\d+) of (\d+) ", claim.text)
    if claim.topic is Topic.REPRO and claim.kind is ClaimKind.FAILS and counted:
        one = judgements[0]
        if (one.failed_runs, one.runs) != (int(counted.group(1)), int(counted.group(2))):
            return f"{one.id} is on record with {one.failed_runs} of {one.runs} runs failed"
    return ""


def unbacked_entries(failure: Mapping[str, Any], claims: Sequence[Claim], record: Record) -> Iterator[Unbacked]:
    """Find what one failure of result.json says beside its Claims; `failure` was read without damage."""
    yield from _workaround(failure, claims)
    yield from _lists(failure, claims)
    yield from _ladder(failure, claims)
    yield from _ablation(failure, claims)
    yield from _inside(failure, claims)
    yield from _repro(failure, claims, record)
    operator = failure["culprit"]["op"]
    if operator and operator not in _about(claims, Topic.REPRO, ClaimKind.CULPRIT):
        yield Unbacked("culprit", str(operator), "no claim says that it is to blame")


def _about(claims: Sequence[Claim], topic: Topic, kind: ClaimKind) -> set[str]:
    return {one.about for one in of(claims, topic, kind)}


def _workaround(failure: Mapping[str, Any], claims: Sequence[Claim]) -> Iterator[Unbacked]:
    text, helps = failure.get("workaround"), _about(claims, Topic.WORKAROUND, ClaimKind.HELPS)
    if text and text not in helps:
        yield Unbacked("workaround", str(text), "no claim says that it helps")
    for one in of(claims, Topic.WORKAROUND, ClaimKind.HELPS):
        if "; ".join(one.about.splitlines()) not in one.text:
            yield Unbacked("workaround", one.text, "the sentence names another workaround than its claim")


def _lists(failure: Mapping[str, Any], claims: Sequence[Claim]) -> Iterator[Unbacked]:
    needed = _about(claims, Topic.PART, ClaimKind.NEEDED)
    for part in failure.get("needed") or ():
        if part not in needed:
            yield Unbacked("needed", str(part), "no claim says that it is needed")
    variations = {one.text for one in of(claims, Topic.VARIATION)}
    for text in failure.get("varies") or ():
        if text not in variations:
            yield Unbacked("varies", str(text), "no claim says so")
    if failure.get("nearest_passing") and not of(claims, Topic.NEIGHBOUR, ClaimKind.PASSES):
        yield Unbacked("nearest_passing", "the nearest script that passes", "no claim says that one passes")


def _ladder(failure: Mapping[str, Any], claims: Sequence[Claim]) -> Iterator[Unbacked]:
    kinds = {True: ClaimKind.FAILS, False: ClaimKind.PASSES}
    for rung in failure.get("ladder") or ():
        kind = kinds.get(rung["fails"])
        if kind is not None and rung["backend"] not in _about(claims, Topic.BACKEND, kind):
            yield Unbacked("ladder", f'{kind.value} with backend="{rung["backend"]}"', "no claim says so")


def _ablation(failure: Mapping[str, Any], claims: Sequence[Claim]) -> Iterator[Unbacked]:
    for row in failure.get("ablation") or ():
        kind = ClaimKind.NEEDED if row["passes"] else ClaimKind.FAILS
        if row["without"] not in _about(claims, Topic.SETTING, kind):
            verb = "passes" if row["passes"] else "fails"
            yield Unbacked("ablation", f"{verb} without {row['without']}", "no claim says so")


def _inside(failure: Mapping[str, Any], claims: Sequence[Claim]) -> Iterator[Unbacked]:
    inside = failure.get("inside")
    if not inside:
        return
    texts = {one.text for one in of(claims, Topic.INSIDE)}
    for text in inside.get("said") or ():
        if text not in texts:
            yield Unbacked("inside", str(text), "no claim says so")
    if inside.get("passes_without_it") and not of(claims, Topic.INSIDE, ClaimKind.CULPRIT):
        yield Unbacked("inside", f"passes without {inside.get('name')}", "no claim says so")


def _repro(failure: Mapping[str, Any], claims: Sequence[Claim], record: Record) -> Iterator[Unbacked]:
    repro, fails = failure.get("repro"), of(claims, Topic.REPRO, ClaimKind.FAILS)
    if repro is None:
        for one in fails:
            yield Unbacked("repro", one.text, "result.json names no repro")
        return
    told = (repro["failed_runs"], repro["runs"])
    text = f"failed in {told[0]} of {told[1]} fresh processes"
    if repro["verified"] and not fails:
        yield Unbacked("repro", text, "no claim says that it fails")
    for one in fails:
        recorded = [(j.failed_runs, j.runs) for j in record.of(one)]
        if recorded and told not in recorded:
            yield Unbacked("repro", text, f"its claim rests on {recorded[0][0]} of {recorded[0][1]}")
