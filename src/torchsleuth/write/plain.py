"""Text that a terminal may be given."""

from __future__ import annotations


def printable(line: str) -> str:
    """A result may come from somebody else: no control sequences reach the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in line)
