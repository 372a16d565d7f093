"""What the assertion of a repro allows: measured on the Case that it is of."""

from __future__ import annotations

from dataclasses import asdict

from torchsleuth.case.failure import Phase, wrong_numbers
from torchsleuth.case.ir import Graph
from torchsleuth.case.model import Case, Check, Level
from torchsleuth.case.program import Form
from torchsleuth.investigate.minimise import with_tolerance
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.referee import told
from torchsleuth.referee.told import Told


def judged(*rows: Told) -> Tried:
    failure = wrong_numbers("values", Phase.RUN_FORWARD, told.line([asdict(row) for row in rows]), "")
    return Tried(Outcome(Verdict.FAILED, failure), Form.COMPILE, False)


def checked(rtol: float | None = None, atol: float | None = None) -> Case:
    return Case(Level.DYNAMO, Graph(()), (), check=Check(rtol=rtol, atol=atol))


def test_it_lies_between_noise_and_error() -> None:
    check = with_tolerance(checked(), judged(Told("out", "values", 1e-4, 1e-6, 10.0))).check
    assert check is not None
    assert check.rtol is not None
    assert 1e-6 < check.rtol < 1e-4


def test_what_a_larger_case_needed_is_forgotten() -> None:
    check = with_tolerance(checked(2e-4, 9e-3), judged(Told("out", "values", 0.01, 1e-8, 1.0))).check
    assert check is not None
    assert (check.rtol, check.atol) == (None, None)


def test_it_stays_where_nothing_was_measured() -> None:
    check = with_tolerance(checked(2e-4, 9e-3), judged()).check
    assert check is not None
    assert (check.rtol, check.atol) == (2e-4, 9e-3)
