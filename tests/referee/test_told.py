"""The verdict as text, and the tolerance that follows from it."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from torchsleuth.referee import told
from torchsleuth.referee.told import Told


def row(compiled: float, eager: float, scale: float = 1.0, how: str = "values") -> Told:
    return Told("out[0]", how, compiled, eager, scale)


def test_what_is_told_is_read() -> None:
    rows = [row(0.5, 1e-7), replace(row(1.0, 0.0, how="nan"), nans=False)]
    text = "\n".join(["out[0]: values: ...", told.line([asdict(r) for r in rows]), "a note"])
    assert told.read(text) == rows


def test_an_older_verdict_says_nothing_of_nans() -> None:
    older = {name: value for name, value in asdict(row(0.5, 1e-7)).items() if name != "nans"}
    assert told.read(told.line([older]))[0].nans


@pytest.mark.parametrize("text", ["", "AssertionError", told.MARK + "no json", told.MARK + "[{}]", told.MARK + "3"])
def test_other_text_tells_nothing(text: str) -> None:
    assert told.read(text) == []


def test_which_results_are_wrong_is_read_in_both_ways() -> None:
    for_people = "out[2]: values: RMS error 0.5\nh.grad: nan: 3 of 4\na note: of something: else\n"
    assert told.wrong_paths(for_people) == ["out[2]", "h.grad"]
    assert told.wrong_paths(for_people + told.line([asdict(row(0.5, 1e-7))])) == ["out[0]"]
    assert told.wrong_paths("AssertionError: no") == []


def test_a_plain_error_needs_no_tolerance_of_its_own() -> None:
    assert told.tolerance([row(0.1, 1e-8)]) is None
    assert told.tolerance([row(0.1, 1e-3), row(1, 0, how="dtype")]) is None


@pytest.mark.parametrize(("compiled", "eager"), [(1e-6, 1e-8), (0.3, 1e-2), (1e-5, 0.0)])
def test_otherwise_it_lies_between_noise_and_error(compiled: float, eager: float) -> None:
    limits = told.tolerance([row(compiled, eager, scale=10.0)])
    assert limits is not None
    assert eager < limits[0] < compiled
    assert limits[1] == pytest.approx(10 * limits[0])
