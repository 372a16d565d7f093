"""A failure's own words, for a bug report: what they say, without what only this machine knows and nobody reads."""

from __future__ import annotations

import re

_MOST = 6000  # characters
_MOST_OF_A_LINE = 300  # the command of a C++ compiler has ten times as many
# Of an installed file the path from its package on says all: the rest is somebody's home.
_INSTALLED = re.compile(r"(?:/[^\s'\"`,:;()<>|/]+)+/(?:site|dist)-packages/")


def error_text(text: str) -> str:
    lines = [_short(line) for line in _INSTALLED.sub("", text.strip()).splitlines()]
    return _last("\n".join(lines))


def _short(line: str) -> str:
    return line if len(line) <= _MOST_OF_A_LINE else f"{line[:_MOST_OF_A_LINE]} [...]"


def _last(text: str) -> str:
    """The end of a traceback says the most; it begins with a whole line."""
    return text if len(text) <= _MOST else f"[...]\n{text[-_MOST:].partition(chr(10))[2]}"
