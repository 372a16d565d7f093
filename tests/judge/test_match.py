"""Whether a run shows the failure that is looked for: one table, by kind of failure."""

from __future__ import annotations

import pytest

from torchsleuth.case.failure import (
    Failure,
    Fingerprint,
    Kind,
    Phase,
    of_hang,
    of_memory_limit,
    of_signal,
    wrong_numbers,
)
from torchsleuth.judge.match import Match, Target, combine, is_same, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.referee import told

RUN = Phase.RUN_FORWARD


def error(name: str = "RuntimeError", message: str = "size N", kind: Kind = Kind.COMPILE_ERROR) -> Failure:
    return Failure(kind, Phase.COMPILE_FORWARD, Fingerprint(name, message))


def wrong(how: str, *, refereed: bool = True) -> Failure:
    row = {"path": "out", "how": how, "compiled_error": 0.5, "eager_error": 0.0, "scale": 1.0}
    return wrong_numbers(how, RUN, told.line([row]) if refereed else "AssertionError: not close", "out is wrong")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(Verdict.FAILED, error()), Match.SAME),
        (Outcome(Verdict.FAILED, error(message="other")), Match.OTHER),
        (Outcome(Verdict.FAILED, None), Match.UNKNOWN),
        (Outcome(Verdict.PASSED), Match.PASSED),
        (Outcome(Verdict.INVALID), Match.INVALID),
        (Outcome(Verdict.UNKNOWN), Match.UNKNOWN),
    ],
)
def test_every_outcome_has_one_answer(outcome: Outcome, expected: Match) -> None:
    assert match(outcome, Target(error())) is expected


@pytest.mark.parametrize(
    ("seen", "wanted", "same"),
    [
        (error(), error(kind=Kind.RUNTIME_ERROR), True),  # the phase in which it is raised may move
        (error("KeyError"), error(), False),
        (of_signal(11, RUN), of_signal(11, RUN), True),
        (of_signal(6, RUN), of_signal(11, RUN), False),
        (of_signal(6, RUN), Failure(Kind.CRASH, RUN, Fingerprint("crash")), True),  # nobody saw the program's signal
        (of_hang(RUN), of_signal(11, RUN), False),
        (of_hang(RUN), of_hang(Phase.COMPILE_FORWARD), True),
        (error(), of_hang(RUN), False),
        (of_memory_limit(RUN), of_signal(9, RUN), True),
        (wrong("values"), wrong("values"), True),
        (wrong("nan"), wrong("values"), False),
        (wrong("dtype"), wrong("values"), False),
        (error(), wrong("values"), False),
        (wrong("values"), error("AssertionError", "not close"), False),
    ],
)
def test_what_makes_two_failures_the_same(seen: Failure, wanted: Failure, same: bool) -> None:
    assert is_same(seen, wanted) is same


def test_an_assertion_does_not_tell_a_nan_from_another_value() -> None:
    assert is_same(wrong("values", refereed=False), wrong("nan"))
    assert not is_same(wrong("shape", refereed=False), wrong("nan"))


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        ([Match.PASSED, Match.SAME, Match.UNKNOWN], Match.SAME),
        ([Match.PASSED, Match.PASSED], Match.PASSED),
        ([Match.PASSED, Match.UNKNOWN], Match.UNKNOWN),
        ([Match.PASSED, Match.OTHER], Match.UNKNOWN),
        ([Match.OTHER, Match.OTHER], Match.OTHER),
        ([Match.INVALID], Match.INVALID),
    ],
)
def test_of_mixed_runs_a_failure_wins_and_a_pass_must_be_unanimous(matches: list[Match], expected: Match) -> None:
    assert combine(matches) is expected
