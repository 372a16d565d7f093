"""What threads are doing comes back, also from a process that is gone, and none erases another's."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from torchsleuth.watch import alive, stages
from torchsleuth.watch.stages import PHASES, Board, read


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_stage_comes_back(tmp_path: Path, phase: str) -> None:
    board = Board(tmp_path / "stage")
    board.tell(phase, 7, 61.5)
    [found] = read(tmp_path / "stage")
    assert (found.phase, found.graph, found.limit) == (phase, 7, 61.5)
    assert abs(found.since - time.time()) < 10
    board.tell("", 0, 0.0)
    assert read(tmp_path / "stage") == ()


@pytest.mark.parametrize("raw", [b"", b"\1", b"\xff" * 20, b"\xff" * 100])
def test_a_damaged_stage_is_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "stage").write_bytes(raw)
    assert read(tmp_path / "stage") == ()
    assert read(tmp_path / "nowhere") == ()


def in_a_thread(act: object) -> None:
    assert callable(act)
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_thread_that_is_done_does_not_erase_what_another_is_in(tmp_path: Path) -> None:
    board = Board(tmp_path / "stage")
    board.tell("run-forward", 1, 0.0)

    def another() -> None:
        board.tell("run-backward", 2, 0.0)
        assert [s.graph for s in read(tmp_path / "stage")] == [2, 1], "the latest first"
        board.tell("", 0, 0.0)

    in_a_thread(another)
    assert [(s.phase, s.graph) for s in read(tmp_path / "stage")] == [("run-forward", 1)]


def test_a_thread_for_each_request_needs_no_more_rows(tmp_path: Path) -> None:
    board = Board(tmp_path / "stage")

    def request() -> None:
        board.tell("run-forward", 3, 0.0)
        board.tell("", 0, 0.0)

    for _ in range(stages._ROWS + 20):
        in_a_thread(request)
    board.tell("run-forward", 4, 0.0)
    assert [s.graph for s in read(tmp_path / "stage")] == [4]


def test_more_threads_than_rows_lose_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_ROWS", 2)
    board = Board(tmp_path / "stage")
    board.tell("run-forward", 1, 0.0)
    for number in (2, 3):
        in_a_thread(lambda number=number: board.tell("run-forward", number, 0.0))
    graphs = [s.graph for s in read(tmp_path / "stage")]
    assert len(graphs) == 2
    assert 1 in graphs, "the second row may be the third thread's, which has the number of the second"


def test_a_process_is_known_by_when_it_began() -> None:
    mine = alive.mark()
    assert mine is not None
    assert not alive.gone(mine)
    assert alive.gone({**mine, "started": mine["started"] + 1}), "another one has its number"
    assert not alive.gone({**mine, "numbers": "of another container", "started": 0}), "nobody knows"
    assert not alive.gone(None)
