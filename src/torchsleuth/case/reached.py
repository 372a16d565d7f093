"""How a value is reached, as a person would write it; Dynamo writes the steps that Python takes."""

from __future__ import annotations

import re

_FRAME = re.compile(r"^[LG]\['(\w+)'\]")
_TABLE = "_(?:modules|parameters|buffers)"
# A class with a `__getattr__` of its own is looked into through its `__dict__`.
_HELD = re.compile(rf"\.(?:__dict__\['{_TABLE}'\]|{_TABLE})\['?([^'\]]+)'?\]")


def reached(source: str) -> str:
    """L['self'].__dict__['_modules']['fc']._parameters['weight'] is self.fc.weight."""
    return _HELD.sub(r".\1", _FRAME.sub(r"\1", source))
