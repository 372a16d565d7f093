"""What is kept of each graph that a program compiles; where the program died or was ended, the last is cut short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torchsleuth.case import folder
from torchsleuth.case.model import Case
from torchsleuth.errors import DamagedCase


def whole(places: Iterable[Path]) -> Iterator[Case]:
    """Those that can be read."""
    for place in places:
        try:
            yield folder.load(place, ours=True)
        except DamagedCase:
            continue
