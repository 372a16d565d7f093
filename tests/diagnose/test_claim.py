"""Claims: backed by what matched or passed, and by nothing else."""

from __future__ import annotations

import pytest

from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, UnfoundedClaim, claim, numbered, of
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match


def judged(match: Match, number: int = 1) -> Judgement:
    return Judgement(f"j{number}", "key", match, Engine.WORKER)


def make(kind: ClaimKind, *backing: Judgement) -> Claim:
    return claim(kind, Topic.PART, "torch.relu", "A sentence.", *backing)


@pytest.mark.parametrize("kind", ClaimKind)
@pytest.mark.parametrize("match", [Match.OTHER, Match.INVALID, Match.UNKNOWN])
def test_nothing_is_claimed_of_what_neither_matched_nor_passed(kind: ClaimKind, match: Match) -> None:
    with pytest.raises(UnfoundedClaim, match=match.value):
        make(kind, judged(match))
    with pytest.raises(UnfoundedClaim):
        make(kind, judged(Match.SAME), judged(match, 2))


@pytest.mark.parametrize("kind", ClaimKind)
def test_nothing_is_claimed_without_a_judgement(kind: ClaimKind) -> None:
    with pytest.raises(UnfoundedClaim):
        make(kind)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ClaimKind.FAILS, Match.PASSED),
        (ClaimKind.PASSES, Match.SAME),
        (ClaimKind.NEEDED, Match.SAME),
        (ClaimKind.HELPS, Match.SAME),
    ],
)
def test_a_pass_is_no_failure_and_a_failure_no_pass(kind: ClaimKind, wrong: Match) -> None:
    with pytest.raises(UnfoundedClaim):
        make(kind, judged(wrong))


def test_a_culprit_takes_both() -> None:
    assert make(ClaimKind.CULPRIT, judged(Match.SAME), judged(Match.PASSED, 2)).judgements == ("j1", "j2")


def test_claims_are_numbered_and_told_once() -> None:
    one, other = make(ClaimKind.FAILS, judged(Match.SAME)), make(ClaimKind.NEEDED, judged(Match.PASSED))
    assert [c.id for c in numbered([one, other, one])] == ["c1", "c2"]
    assert of([one, other], Topic.PART, ClaimKind.NEEDED) == [other]
    assert of([one, other], Topic.PART) == [one, other]
    assert of([one, other], Topic.BACKEND) == []
