"""Parts say what the whole does, and no more is held than is needed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from torchsleuth.referee import blocks, unstable, verdict
from torchsleuth.referee.blocks import Counted, Largest, Rms, element, shape_of, unravel
from torchsleuth.referee.referee import referee
from torchsleuth.referee.upcast import Upcast
from torchsleuth.referee.values import Seen
from torchsleuth.referee.verdict import Difference, References

INF, NAN = float("inf"), float("nan")


def drawn(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, References]:
    """Eager, compiled, and float64 runs of one result, some of it not finite; its memory is in another order."""
    torch.manual_seed(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    exact = torch.randn(5, 4, dtype=wide).t()
    eager = exact.to(dtype)
    compiled = eager.clone()
    compiled[2, 3] += 0.5
    nudged = [exact * (1 + 1e-7), exact * (1 - 1e-7)]
    return eager, compiled, References(exact, nudged, 2.0**-19)


def said(monkeypatch: pytest.MonkeyPatch, elements: int, *given: Any) -> list[Difference | None]:
    monkeypatch.setattr(blocks, "ELEMENTS", elements)
    eager, compiled, references = given
    return [
        verdict.judge("out", eager, compiled, references),
        verdict.judge("out", eager, compiled, None),
        verdict.beyond("out", eager, compiled, [eager * (1 + 1e-7)]),
        unstable.far_out("out", eager, compiled, references),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("at", [None, (0, 0), (3, 4)])
@pytest.mark.parametrize("value", [NAN, INF])
def test_parts_say_what_the_whole_does(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, at: tuple[int, int] | None, value: float
) -> None:
    eager, compiled, references = drawn(dtype)
    if at is not None:
        compiled[at] = value
    whole = said(monkeypatch, 1000, eager, compiled, references)
    found = whole[0]
    assert found is not None
    assert found.how == ("values" if at is None else "nan")
    assert str(list(at or (2, 3)))[:-1] in found.text
    for elements in (1, 3, 7):
        parts = said(monkeypatch, elements, eager, compiled, references)
        for part, one in zip(parts, whole, strict=True):
            assert (part and (part.how, part.text, part.excused)) == (one and (one.how, one.text, one.excused))
            assert part is None or one is None or part.compiled_error == pytest.approx(one.compiled_error)


def test_far_from_where_nudges_take_it_is_found_in_any_part(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch.full((10,), 40.0, dtype=torch.float64)
    eager, compiled = exact.float(), exact.float()
    compiled[8] = 0.0
    moved = exact.clone()
    moved[8] = 39.0
    for elements in (1, 4, 100):
        monkeypatch.setattr(blocks, "ELEMENTS", elements)
        found = unstable.far_out("out", eager, compiled, References(exact, [moved], 2.0**-19))
        assert found is not None
        assert "at [8] compiled gives 0, eager 40, float64 40; rounding only moves it between 39 and 40" in found.text


@pytest.mark.parametrize(("one", "other"), [(INF, NAN), (INF, -INF), (NAN, 1.0), (-INF, -1e30)])
def test_what_is_not_finite_must_be_the_same(one: float, other: float) -> None:
    for a, b in ((one, other), (other, one)):
        assert not verdict.alike(torch.tensor([1.0, a]), torch.tensor([1.0, b]))
    assert verdict.alike(torch.tensor([1.0, one]), torch.tensor([1.0 + 1e-7, one]))


def test_totals_of_parts() -> None:
    rms, largest, counted = Rms(), Largest(), Counted()
    for start, part in ((0, [3.0, 0.0]), (2, [4.0, 4.0]), (4, [])):
        values = torch.tensor(part, dtype=torch.float64)
        rms.add(values)
        counted.add(start, values == 4)
        if part:
            largest.add(start, values)
    assert rms.value == pytest.approx((41 / 4) ** 0.5)
    assert (largest.place, largest.value) == (2, 4.0)
    assert (counted.place, counted.count) == (2, 2)
    assert (Rms().value, Counted().count) == (0.0, 0)


def test_places_of_complex_numbers_name_their_part() -> None:
    tensor = torch.tensor([[1 + 2j, 3 + 4j]])
    assert shape_of(tensor) == (1, 2, 2)
    assert [element(tensor, unravel(i, shape_of(tensor))) for i in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_what_is_alike_is_let_go_before_eager_runs_again() -> None:
    held: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def eager() -> Sequence[Seen]:
        alive.append(sum(one() is not None for one in held))
        weight = torch.ones(3)
        held.append(weakref.ref(weight))
        return [Seen("weight", weight), Seen("out", torch.ones(1) * 2)]

    report = referee(eager, lambda: [Seen("weight", torch.ones(3)), Seen("out", torch.ones(1))])
    assert [d.path for d in report.wrong] == ["out"]
    assert len(alive) > 3
    assert set(alive) == {0}


@pytest.mark.parametrize("size", [5, 300_000])
def test_what_an_operator_is_given_is_not_moved_with_its_result(size: int) -> None:
    with Upcast(1e-3, seed=1):
        x = torch.rand(size) + 1
        before = x.clone()
        y = x * 2
        same = bool((x == before).all())
    assert same
    apart = (y / (2 * before) - 1).abs()
    assert 0 < float(apart.max()) <= 1e-3
    assert float((apart == 0).double().mean()) < 0.01
