"""Which of the failures that were told of is the one that ended the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsleuth.case.failure import Phase, of_exception
from torchsleuth.watch.ledger import Ledger, Mark
from torchsleuth.watch.session import Options, Outbox, processes


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    box = Outbox(tmp_path, Options())
    box.hello()
    return Ledger(box)


def told(ledger: Ledger, error: BaseException) -> BaseException:
    ledger.tell_alone(of_exception(error, Phase.RUN_FORWARD), error)
    return error


def ended_by(ledger: Ledger) -> list[tuple[int, str | None]]:
    [process] = processes(ledger.outbox.session)
    return [(e["number"], e.get("error")) for e in process.of("ended-by")]


def test_the_very_exception_ended_it(ledger: Ledger) -> None:
    error = told(ledger, RuntimeError("compiled"))
    ledger.note_end(error)
    assert ended_by(ledger) == [(1, None)]


def test_what_was_added_to_it_on_the_way_does_not_make_it_another(ledger: Ledger) -> None:
    error = told(ledger, RuntimeError("compiled"))
    error.args = ("epoch 3: compiled",)
    ledger.note_end(error)
    assert ended_by(ledger) == [(1, None)]


def test_an_error_in_the_place_of_one_that_is_gone_is_another(ledger: Ledger) -> None:
    """Built-in exceptions cannot be referred to weakly, and Python uses their memory again at once."""
    error = told(ledger, RuntimeError("compiled"))
    place = id(error)
    ledger.exceptions[-1] = (Mark(place, RuntimeError, "compiled"), 1)
    mine = ValueError("my own mistake")
    also = RuntimeError("something else")
    for other in (mine, also):
        ledger.exceptions[-1] = (Mark(id(other), RuntimeError, "compiled"), 1)
        ledger.note_end(other)
    assert ended_by(ledger) == [(0, "ValueError: my own mistake"), (0, "RuntimeError: something else")]


def test_what_it_was_raised_from_ended_it(ledger: Ledger) -> None:
    error = told(ledger, RuntimeError("compiled"))
    wrapped = ValueError("while training")
    wrapped.__cause__ = error
    ledger.note_end(wrapped)
    assert ended_by(ledger) == [(1, None)]


def test_a_long_session_does_not_remember_for_ever(ledger: Ledger) -> None:
    for number in range(1000):
        told(ledger, RuntimeError(f"{number}"))
    assert len(ledger.exceptions) < 300
