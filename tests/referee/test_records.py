"""Where two recorded runs of a model part."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from torchsleuth.errors import BadUsage
from torchsleuth.referee import records
from torchsleuth.referee.records import Record, compare, sampled


def made(op: str, value: torch.Tensor, *inputs: int, module: str = "model", turn: int = 0) -> Record:
    sample, rms = sampled(value)
    return Record(module, op, turn, "m.py:3: y", tuple(value.shape), str(value.dtype), rms, inputs, sample)


def run(noise: float = 0.0, scale: float = 1.0) -> list[Record]:
    """linear, gelu, linear: the gelu is off by `scale`, everything by `noise`."""
    torch.manual_seed(0)
    x = torch.randn(300, 40)
    x = x + noise * torch.randn(300, 40)
    gelu = torch.nn.functional.gelu(x) * scale
    return [made("linear", x), made("gelu", gelu, 0), made("linear", gelu @ torch.ones(40, 40), 1, turn=1)]


def test_rounding_is_alike() -> None:
    found = compare(run(), run(noise=1e-7))
    assert found.apart == []
    assert str(found).startswith("alike: 3 operators compared; furthest apart by")


def test_the_first_that_parts_is_to_blame_and_the_others_carry_it_on() -> None:
    found = compare(run(), run(noise=1e-7, scale=1.01))
    assert [(p.record.op, p.to_blame) for p in found.apart] == [("gelu", True), ("linear", False)]
    assert str(found).splitlines()[:2] == ["they part at gelu in model: relative difference 0.01", "  m.py:3: y"]
    assert "1 more carry it on" in str(found)


def test_an_operator_that_only_one_run_has_hands_on_what_it_was_given() -> None:
    first, second = run(), run(scale=1.01)
    second.insert(2, made("dropout", torch.ones(2), 1))
    second[3] = replace(second[3], inputs=(2,))
    found = compare(first, second)
    assert [p.record.op for p in found.partings if p.to_blame] == ["gelu"]
    assert (found.only_first, found.only_second) == (0, 1)
    assert "only in this run" in str(found)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (torch.ones(3), torch.ones(4), "torch.float32 [3] in the record"),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), "torch.float64 [3] in this run"),
        (torch.ones(3), torch.tensor([1.0, math.nan, 1.0]), "other elements are nan"),
        (torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5]), "0.25 of its elements differ"),
        (torch.tensor([True]), torch.tensor([False]), "1 of its elements differ"),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 2j]), "relative difference"),
    ],
)
def test_how_they_differ_is_said(before: torch.Tensor, after: torch.Tensor, said: str) -> None:
    [parting] = compare([made("op", before)], [made("op", after)]).partings
    assert parting.apart
    assert said in parting.said


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["float32", "bfloat16", "int8", "bool", "complex64"]), st.integers(0, 9000))
def test_a_record_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, dtype: str, count: int) -> None:
    folder = tmp_path_factory.mktemp("record")
    value = torch.randn(count).to(getattr(torch, dtype))
    written = [made("op", value), made("op", value, 0, turn=1)]
    records.save(folder, written, {"torch": "2.13"})
    read = records.load(folder)
    assert read == written
    assert all(torch.equal(a.sample, b.sample) for a, b in zip(read, written, strict=True))
    assert compare(read, written).apart == []


def test_a_value_is_kept_in_part() -> None:
    sample, rms = sampled(torch.arange(100_000.0))
    assert sample.numel() <= 4096
    assert rms == pytest.approx(57734.6, rel=1e-4)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', '{"schema": 99, "records": []}'])
def test_what_is_no_record_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "records.json").write_text(text)
    with pytest.raises(BadUsage, match="record"):
        records.load(tmp_path)
