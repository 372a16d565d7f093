"""Claims: sentences about a failure, each with the Judgements that back it.

A Claim is made from Judgements that matched (SAME) or passed (PASSED) and from nothing else: the constructors here
refuse the rest.  Terminal, issue, page, docstring and result.json print Claims; what no Judgement backs is not said,
or stands among what is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from torchsleuth.judge.judgement import Judgement
from torchsleuth.judge.match import Match


class ClaimKind(str, Enum):
    """What a Claim says of the thing that it is about."""

    FAILS = "fails"  # fails with it, in the same way
    PASSES = "passes"  # passes with it
    NEEDED = "needed"  # passes without it
    CULPRIT = "culprit"  # is to blame
    HELPS = "helps"  # is a workaround


class Topic(str, Enum):
    """Where a Claim stands on the pages."""

    REPRO = "repro"
    BACKEND = "backend"
    PART = "part"  # of the repro: an operator, an input, a setting
    VARIATION = "variation"  # another size or dtype
    INSIDE = "inside"  # a step inside the compiler
    SETTING = "setting"  # of the user's own program, switched off
    NEIGHBOUR = "neighbour"  # the script that passes and differs in one thing
    WORKAROUND = "workaround"


@dataclass(frozen=True)
class Claim:
    """One sentence, and the numbers of the Judgements behind it."""

    kind: ClaimKind
    topic: Topic
    about: str
    text: str
    judgements: tuple[str, ...]
    id: str = ""


class UnfoundedClaim(AssertionError):
    """A Claim that its Judgements do not back: a fault of torchsleuth's own."""


_ALLOWED = {
    ClaimKind.FAILS: {Match.SAME},
    ClaimKind.PASSES: {Match.PASSED},
    ClaimKind.NEEDED: {Match.PASSED},
    ClaimKind.CULPRIT: {Match.SAME, Match.PASSED},
    ClaimKind.HELPS: {Match.PASSED},
}


def allows(kind: ClaimKind, match: Match) -> bool:
    """Return whether a Judgement with this match can back a Claim of this kind."""
    return match in _ALLOWED[kind]


def claim(kind: ClaimKind, topic: Topic, about: str, text: str, *backing: Judgement) -> Claim:
    """Make a Claim.

    Raises:
        UnfoundedClaim: There is no Judgement, or one of them does not back the Claim.
    """
    matches = {one.match for one in backing}
    if not backing or not matches <= _ALLOWED[kind]:
        shown = ", ".join(f"{one.id}: {one.match.value}" for one in backing) or "none"
        raise UnfoundedClaim(f"{kind.value} {about!r} is not backed by its judgements ({shown})")
    return Claim(kind, topic, about, text, tuple(one.id for one in backing))


def numbered(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Number the Claims of one failure: c1, c2, and so on."""
    return tuple(replace(one, id=f"c{number}") for number, one in enumerate(dict.fromkeys(claims), start=1))


def of(claims: Sequence[Claim], topic: Topic, kind: ClaimKind | None = None) -> list[Claim]:
    """Select the Claims of a topic, and of a kind where one is given."""
    return [one for one in claims if one.topic is topic and kind in (None, one.kind)]
