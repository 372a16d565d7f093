"""Marking a size dynamic is seen to help only in a run that was seen to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.commands import explaining
from torchsleuth.explain.break_text import Place
from torchsleuth.explain.gather import gather
from torchsleuth.explain.recompiles import Recompile

PLACE = Place("train.py", 3, "step")
AGAIN = Recompile("a size", PLACE, PLACE, 3, ("2", "3"), "", False, ("0/1",), "x.size()[0]")


class Again:
    def __init__(self, code: int | None) -> None:
        self._code = code

    def explained(self, trace: Path, extra: dict[str, str]) -> int | None:
        assert extra == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']"}
        return self._code


@pytest.mark.parametrize(
    ("code", "tried", "note"),
    [
        (0, "Tried: with x marked dynamic, it is not compiled again for this.", "marked dynamic (exit code 0)"),
        (None, "", "marked dynamic, and was not seen to end: nothing is known of it"),
    ],
)
def test_what_was_cut_short_says_nothing(tmp_path: Path, code: int | None, tried: str, note: str) -> None:
    found = replace(gather([]), recompiles=(AGAIN,))
    again: Any = Again(code)
    told = explaining._tried(found, again, tmp_path / "none", lambda _: None)
    assert told.recompiles[0].tried == tried
    assert told.notes[-1].endswith(note)
