"""Where a few units in the last place become much, by a record of what each operator gave."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from torchsleuth.investigate.sensitivity import difference, first_spread
from torchsleuth.referee.nudge import Nudge, Step, read_steps

EPSILON = 1.2e-7


def step(
    *sample: float,
    given: float = 1.0,
    operator: str = "aten.mul.Tensor",
    unit: float = EPSILON,
    place: str = "",
) -> Step:
    return Step(operator, place, unit, sample, (given,))


def test_the_operator_that_makes_much_of_a_little_is_named() -> None:
    inverse = step(3e8, given=1.0 + 1e-7, operator="aten.linalg_inv_ex.default", place="p.py:8: torch.linalg.inv(a)")
    spread = first_spread([step(1.0), step(2e8, operator="aten.linalg_inv_ex.default")], [step(1.0 + 1e-7), inverse])
    assert spread is not None
    assert spread.step.operator == "aten.linalg_inv_ex.default"
    assert (
        spread.text == "aten.linalg_inv_ex.default makes a relative difference of 0.5 of a relative difference of 1e-07"
    )


def test_integers_and_bools_are_not_rounded() -> None:
    plain = [step(1.0), step(3.0, operator="aten.argmax.default", unit=0.0)]
    moved = [step(1.0 + 1e-7), step(7.0, given=1.0 + 1e-7, operator="aten.argmax.default", unit=0.0)]
    spread = first_spread(plain, moved)
    assert spread is not None
    assert spread.text == "aten.argmax.default makes other values of a relative difference of 1e-07"


def test_a_difference_that_grows_slowly_is_no_operators() -> None:
    plain = [step(1.0) for _ in range(30)]
    moved = [step(1.0 + 1e-7 * 2**n, given=1.0 + 1e-7 * 2 ** (n - 1)) for n in range(30)]
    spread = first_spread(plain, moved)
    assert spread is not None
    assert spread.text.startswith("the difference grows from operator to operator and is 0.001")


def test_values_that_no_graph_computed_are_no_operators() -> None:
    """Random numbers without a seed, or what the program makes of a result before the next graph."""
    spread = first_spread([step(1.0), step(1.0, given=3.0)], [step(1.0), step(2.0, given=5.0)])
    assert spread is not None
    assert spread.outside
    assert spread.text == "aten.mul.Tensor is given values that differ by 0.67 (relative), which no graph computed"


def test_a_nudge_of_a_coarse_type_is_not_much() -> None:
    assert first_spread([step(1.0, unit=2.0**-7)], [step(1.0 + 2.0**-7, unit=2.0**-7)]) is None
    assert first_spread([step(1.0, unit=2.0**-7)], [step(2.0, unit=2.0**-7)]) is not None


def test_runs_that_went_other_ways_say_nothing() -> None:
    assert first_spread([step(1.0)], [step(2.0, operator="aten.add.Tensor")]) is None
    assert first_spread([step(1.0)], [step(2.0, 3.0)]) is None
    assert first_spread([step(1.0)], [step(1.0 + 1e-7)]) is None


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((3.0, 4.0), (3.0, 4.5), 0.1),
        ((0.0,), (0.0,), 0.0),
        ((0.0,), (1e-9,), 1.0),
        ((math.nan, 1.0), (math.nan, 1.0), 0.0),
        ((math.nan,), (1.0,), 1.0),
        ((math.inf, 1.0), (math.inf, 1.0), 0.0),
        ((math.inf,), (-math.inf,), 1.0),
        ((), (), 0.0),
    ],
)
def test_how_far_two_results_are_apart(one: tuple[float, ...], other: tuple[float, ...], apart: float) -> None:
    assert difference(step(*one), step(*other)) == pytest.approx(apart)


def test_the_record_of_a_process_that_died_ends_before_its_last_line(tmp_path: Path) -> None:
    row = json.dumps(["aten.mul.Tensor", "p.py:1: x * y", EPSILON, [1.0, 2.0], [3.0]])
    (tmp_path / "7.jsonl").write_text(f"{row}\n{row[:9]}")
    assert read_steps(tmp_path) == [Step("aten.mul.Tensor", "p.py:1: x * y", EPSILON, (1.0, 2.0), (3.0,))]
    assert read_steps(tmp_path / "none") == []


def test_a_nudge_survives_the_environment() -> None:
    nudge = Nudge(3, 4, "/a/folder")
    assert Nudge.read(nudge.environment) == nudge
    assert Nudge.read({}).units == 16, "the backend by itself moves results further"


def test_every_operator_of_a_graph_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x).sum()

    x = torch.linspace(0.0, 1.0, 100)
    recorded = []
    for units in (0, 4):
        nudge = Nudge(0, units, str(tmp_path / str(units)))
        monkeypatch.setenv(*next(iter(nudge.environment.items())))
        torch.compile(f, backend="sleuth_nudged")(x)
        recorded.append(read_steps(tmp_path / str(units)))
    plain, moved = recorded
    assert [step.operator for step in plain] == ["aten.exp.default", "aten.sum.default"]
    assert len(plain[0].sample) <= 64
    assert plain[0].place.endswith("return torch.exp(x).sum()")
    assert plain[1].sample == (float(f(x)),)
    apart = difference(plain[0], moved[0])
    assert EPSILON < apart < 10 * EPSILON, "each element by 4 units"
    assert first_spread(plain, moved) is None
