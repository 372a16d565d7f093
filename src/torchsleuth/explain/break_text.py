"""A graph break, read from the text that the trace holds of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AT = re.compile(r"Graph break in user code at (.+):(\d+)\s*$", re.MULTILINE)
_KIND = re.compile(r"^(\S.*)\n  Explanation: (.*(?:\n(?!  Hint:|  Developer|\S).*)*)", re.MULTILINE)
_HINT = re.compile(r"^  Hint: (.*)$", re.MULTILINE)
_CONTEXT = re.compile(r"^  Developer debug context: (.*)$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class BreakText:
    kind: str  # torch's name for this sort of break
    explanation: str
    context: str
    hints: tuple[str, ...]
    stack: tuple[Place, ...]  # outermost first; the last is where it broke
    in_loop: bool
    gave_up: bool  # the whole frame runs in eager because of it

    @property
    def place(self) -> Place:
        """The innermost line that can be changed: not one of Python's own library or of torch."""
        for place in reversed(self.stack):
            if not is_machinery(place.file):
                return place
        return self.stack[-1] if self.stack else Place("", 0, "")


def parse_break(text: str) -> BreakText:
    body, _, rest = text.partition("\nUser code traceback:\n")
    stack = _stack(rest) or _stack(text)
    at = _AT.search(body)
    if at is not None and (not stack or (stack[-1].file, stack[-1].line) != (at[1], int(at[2]))):
        stack = (*stack, Place(at[1], int(at[2]), stack[-1].function if stack else ""))
    first, _, again = body.partition("*** While handling this graph break, another graph break occurred: ***")
    kind = _KIND.search(first)
    context = _CONTEXT.search(first)
    return BreakText(
        kind[1].removeprefix("Graph Break Reason: ").strip() if kind else _headline(first),
        " ".join(kind[2].split()) if kind else "",
        context[1].strip() if context else "",
        tuple(_HINT.findall(first)),
        stack,
        "graph break in loop" in again,
        "falling back to eager" in body or "fall back to eager" in body,
    )


_LIBRARY = re.compile(r"/lib(?:64)?/python3\.\d+/(?!site-packages/|dist-packages/)")


def is_machinery(file: str) -> bool:
    return "/site-packages/torch/" in file or "/dist-packages/torch/" in file or bool(_LIBRARY.search(file))


def plain_function(name: str) -> str:
    """The user's function behind one that Dynamo made to go on after a break."""
    while (found := _RESUMED.match(name)) is not None:
        name = found[1]
    return name


def resumed_at(name: str) -> int | None:
    found = _RESUMED.match(name)
    return int(found[2]) if found else None


def _stack(text: str) -> tuple[Place, ...]:
    places: list[Place] = []
    for line in text.splitlines():
        found = _FRAME.match(line)
        if found:
            places.append(Place(found[1], int(found[2]), plain_function(found[3])))
        elif places and not line.startswith("    "):
            break
    return tuple(places)


def _headline(text: str) -> str:
    _, _, after = text.partition("Graph Break Reason:")
    return (after or text).strip().splitlines()[0].strip() if (after or text).strip() else "unknown"
