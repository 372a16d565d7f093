"""A judgement that was made again, compared with the one on record."""

from __future__ import annotations

import pytest

from torchsleuth.commands.audit_verdict import compare
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match
from torchsleuth.judge.remake import Remade
from torchsleuth.reduce.chance import ALWAYS, Chance
from torchsleuth.write.audit_report import Verdict

SAME, PASSED, OTHER, UNKNOWN = Match.SAME, Match.PASSED, Match.OTHER, Match.UNKNOWN
FLAKY = Chance(4, 12)


def recorded(match: Match, failed: int, runs: int) -> Judgement:
    return Judgement("j1", "c", match, Engine.FRESH, runs=runs, failed_runs=failed)


@pytest.mark.parametrize(
    ("one", "seen", "verdict"),
    [
        (recorded(SAME, 3, 3), (SAME, SAME, SAME), Verdict.HOLDS),
        (recorded(SAME, 3, 3), (SAME, SAME, PASSED), Verdict.DOES_NOT_HOLD),
        (recorded(SAME, 3, 3), (SAME, OTHER, SAME), Verdict.DOES_NOT_HOLD),
        (recorded(SAME, 3, 3), (SAME, UNKNOWN), Verdict.NOT_MADE),
        (recorded(SAME, 3, 3), (PASSED, UNKNOWN), Verdict.DOES_NOT_HOLD),
        (recorded(PASSED, 0, 1), (PASSED,), Verdict.HOLDS),
        (recorded(PASSED, 0, 1), (SAME,), Verdict.DOES_NOT_HOLD),
        (recorded(PASSED, 0, 1), (Match.INVALID,), Verdict.DOES_NOT_HOLD),
        (recorded(PASSED, 0, 1), (UNKNOWN,), Verdict.NOT_MADE),
        (recorded(PASSED, 0, 1), (), Verdict.NOT_MADE),
    ],
)
def test_a_failure_that_shows_each_time_must_show_each_time(
    one: Judgement, seen: tuple[Match, ...], verdict: Verdict
) -> None:
    assert compare(one, Remade(seen), ALWAYS)[0] is verdict


@pytest.mark.parametrize(
    ("failed", "verdict"),
    [
        (0, Verdict.DOES_NOT_HOLD),
        (1, Verdict.HOLDS),
        (4, Verdict.HOLDS),
        (9, Verdict.HOLDS),
        (12, Verdict.DOES_NOT_HOLD),
    ],
)
def test_the_rate_of_a_flaky_failure_must_be_compatible(failed: int, verdict: Verdict) -> None:
    seen = (SAME,) * failed + (PASSED,) * (12 - failed)
    found, why = compare(recorded(SAME, 4, 12), Remade(seen), FLAKY)
    assert found is verdict
    assert why == (
        "" if found is Verdict.HOLDS else f"failed in the same way in {failed} of 12 runs (4 of 12 on record)"
    )


def test_one_run_of_a_flaky_failure_holds_once_it_fails_again() -> None:
    one = recorded(SAME, 1, 1)
    assert compare(one, Remade((PASSED, PASSED, SAME)), FLAKY)[0] is Verdict.HOLDS
    assert compare(one, Remade((PASSED,) * 10), FLAKY)[0] is Verdict.DOES_NOT_HOLD
    assert compare(one, Remade((PASSED, OTHER)), FLAKY)[0] is Verdict.DOES_NOT_HOLD


def test_a_rare_failure_that_did_not_show_is_not_known_to_be_gone() -> None:
    found, why = compare(recorded(SAME, 1, 12), Remade((PASSED,) * 12), Chance(1, 12))
    assert (found, why) == (Verdict.NOT_MADE, "failed in the same way in 0 of 12 runs (1 of 12 on record)")


def test_a_run_that_was_cut_short_says_nothing_of_a_flaky_failure() -> None:
    assert compare(recorded(SAME, 4, 12), Remade((PASSED, UNKNOWN)), FLAKY)[0] is Verdict.NOT_MADE


def test_what_cannot_be_made_here_neither_holds_nor_not() -> None:
    assert compare(recorded(SAME, 1, 1), Remade(obstacle="no device"), ALWAYS) == (Verdict.NOT_MADE, "no device")
