"""What a recorder notes of a model."""

from __future__ import annotations

import pytest
import torch

from torchsleuth.backends.recording import Recorder
from torchsleuth.referee.records import compare


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.sin(self.linear(x))
        h.mul_(2)
        values, _ = h.max(-1, keepdim=True)
        return h - values


def recorded(model: torch.nn.Module, *, compiled: bool = False) -> Recorder:
    torch._dynamo.reset()
    recorder = Recorder(compiled=compiled)
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    out = torch.compile(model, backend=recorder)(x)
    torch.testing.assert_close(out, model(x))
    return recorder


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block())


def test_each_operator_with_its_module_its_turn_and_what_it_was_made_from() -> None:
    records = recorded(model()).records
    first = [(r.module, r.op) for r in records[: len(records) // 2]]
    assert first[0] == ("model[0].linear", "linear")
    assert first[1] == ("model[0]", "sin")
    assert {op for _, op in first} == {"linear", "sin", "mul", "getitem", "sub"}
    assert records[len(records) // 2].module == "model[1].linear"
    assert records[1].inputs == (0,)
    picked = next(r for r in records if r.op == "getitem")
    assert picked.inputs  # through the tuple that max gives
    assert "test_recording.py" in records[1].source


def test_what_is_written_to_a_value_later_does_not_show() -> None:
    sine = next(r for r in recorded(model()).records if r.op == "sin")
    mul = next(r for r in recorded(model()).records if r.op == "mul")
    torch.testing.assert_close(mul.sample, sine.sample * 2)


@pytest.mark.slow
def test_compiled_is_alike() -> None:
    found = compare(recorded(model()).records, recorded(model(), compiled=True).records)
    assert len(found.partings) == len(recorded(model()).records)
    assert found.apart == []
    assert (found.only_first, found.only_second) == (0, 0)
