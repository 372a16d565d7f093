"""How much memory is left, and what is not compared for want of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchsleuth.commands import pipeline
from torchsleuth.watch import free_memory, numbers
from torchsleuth.watch.found import summarise
from torchsleuth.watch.free_memory import _of_container, available_memory, room_to_compare
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.schedule import Schedule
from torchsleuth.watch.session import Options, Outbox


def test_what_is_available_is_the_less_of_machine_and_container(tmp_path: Path) -> None:
    assert 0 < available_memory() < 1 << 50
    assert _of_container(tmp_path) == 1 << 62
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert _of_container(tmp_path) == 700
    (tmp_path / "memory.current").write_text("1300\n")
    assert _of_container(tmp_path) == 0
    (tmp_path / "memory.max").write_text("max\n")
    assert _of_container(tmp_path) == 1 << 62
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("500\n")
    (tmp_path / "memory/memory.usage_in_bytes").write_text("100\n")
    assert _of_container(tmp_path) == 400


@pytest.mark.parametrize(("left", "room"), [(1 << 30, True), (40 << 20, False)])
def test_a_call_is_compared_where_copies_of_what_it_gets_fit(
    monkeypatch: pytest.MonkeyPatch, left: int, room: bool
) -> None:
    monkeypatch.setattr(free_memory, "available_memory", lambda: left)
    weights = [torch.empty(1 << 20), torch.empty(1 << 20), 3, None]
    assert room_to_compare(weights) is room
    assert room_to_compare([torch.empty(1000), 3])


def test_memory_that_inputs_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "available_memory", lambda: 100 << 20)
    whole = torch.empty(1 << 20)
    assert room_to_compare([whole] * 20)
    assert not room_to_compare([torch.empty(1 << 20) for _ in range(20)])


def test_a_call_that_would_not_fit_is_left_alone_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    box = Outbox(tmp_path, Options())
    box.hello()
    record = SimpleNamespace(eager=object(), number=3, calls=1)

    def too_large() -> None:
        box.event("too-large", graph=record.number)

    inputs = [torch.ones(2)]
    assert numbers.before(Schedule(), record, inputs, too_large) is not None  # type: ignore[arg-type]
    assert summarise(tmp_path, 0).too_large == 0
    monkeypatch.setattr(numbers, "room_to_compare", lambda _: False)
    for _ in range(2):  # calls of one graph
        assert numbers.before(Schedule(), record, inputs, too_large) is None  # type: ignore[arg-type]
    summary = summarise(tmp_path, 0)
    assert summary.too_large == 1
    [note] = pipeline._notes(Ended(0, 1.0), summary, pipeline.Settings())
    assert note.startswith("1 graph was too large to be compared with eager in the memory that is free")
