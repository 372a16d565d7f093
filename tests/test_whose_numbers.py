"""Whose fault it is that a program fails and no compiler did, by what its reruns say; the reruns are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchsleuth import wrong_numbers
from torchsleuth.case.failure import Phase, wrong_numbers as failure_of
from torchsleuth.watch.found import Found, Summary, died
from torchsleuth.watch.session import Process, Stage


class Reruns:
    """What each rerun would say; None: it did not end."""

    def __init__(self, numbers: Summary, kinds: Summary, eager: bool = False, **passes: bool | None) -> None:
        self._numbers, self._kinds, self._eager, self._passes = numbers, kinds, eager, passes

    def with_numbers(self, wanted: str) -> Summary:
        return self._kinds if wanted == "kinds" else self._numbers

    def fails_in_eager(self) -> bool:
        return self._eager

    def passes_with_graphs_on(self, backend: str) -> bool | None:
        return self._passes[backend]


def looked(tmp_path: Path, **said: Any) -> wrong_numbers.Looked:
    process = Process(tmp_path, {}, (), Stage())
    first = Summary(1, 1, (), uncaught="AssertionError: off", reference=process, exit_code=1)
    wrong = Found(failure_of("values", Phase.RUN_FORWARD, "", "out is wrong"), None, process)
    numbers = replace(first, found=(wrong,) if said.pop("wrong", False) else (), exit_code=said.pop("compared", 1))
    kinds = replace(first, found=(wrong,) if said.pop("kinds", False) else ())
    again: Any = Reruns(numbers, kinds, **said)
    return wrong_numbers.look(first, again, lambda _: None)


@pytest.mark.parametrize(
    ("said", "blamed", "note"),
    [
        ({"wrong": True}, "", "compared with eager"),
        ({"eager": True}, None, "fails with compilation off, too"),
        ({"compared": 0}, None, "fallback_random"),
        ({"compared": 0, "kinds": True}, "", "compared with eager"),
    ],
)
def test_what_the_first_reruns_say(tmp_path: Path, said: dict[str, Any], blamed: str | None, note: str) -> None:
    found = looked(tmp_path, **said)
    assert [f.component for f in found.summary.found] == ([] if blamed is None else [blamed])
    assert any(note in one for one in found.notes)


@pytest.mark.parametrize(
    ("eager", "aot_eager", "excused", "blamed", "note"),
    [
        (False, None, False, "dynamo", "Dynamo is to blame"),
        (True, False, False, "aot", "AOTAutograd is to blame"),
        (True, True, False, "inductor", "Inductor is to blame"),
        (True, True, True, None, "is not wrong"),
        (None, None, False, None, "not seen to end"),
        (True, None, False, None, "not seen to end"),
    ],
)
def test_what_other_backends_say(
    tmp_path: Path, eager: bool | None, aot_eager: bool | None, excused: bool, blamed: str | None, note: str
) -> None:
    """A rerun that Ctrl-C or its time limit ended blames nobody."""
    process = Process(tmp_path, {}, (), Stage())
    first = Summary(1, 1, (), reference=process, exit_code=1)
    numbers = replace(first, excused=("out[0]: rounding",) if excused else ())
    again: Any = Reruns(numbers, first)
    again._passes = {"eager": eager, "aot_eager": aot_eager}
    found = wrong_numbers.look(first, again, lambda _: None)
    assert [f.component for f in found.summary.found] == ([] if blamed is None else [blamed])
    assert any(note in one for one in found.notes)


@pytest.mark.parametrize(
    ("code", "itself"), [(-6, True), (-11, True), (-9, False), (-15, False), (-2, False), (1, False)]
)
def test_a_program_that_dies_by_what_it_did_itself(code: int, itself: bool) -> None:
    assert died(code) is itself
