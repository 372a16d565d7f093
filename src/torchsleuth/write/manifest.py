"""MANIFEST.txt: what a zip holds, what it does not, and what was taken out of its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torchsleuth import __version__
from torchsleuth.write.own_data import OwnData
from torchsleuth.write.redaction import Redactor

_MOST_PATHS = 12


@dataclass(frozen=True)
class LeftOut:
    name: str
    nbytes: int
    why: str


@dataclass(frozen=True)
class Packed:
    """What a zip holds."""

    run: str
    command: str
    rows: tuple[tuple[str, int, bool], ...]  # name, bytes, whether it holds tensor data
    left_out: tuple[LeftOut, ...]
    environment: tuple[tuple[str, str], ...]  # variables that a case.json carries
    redactor: Redactor
    own: tuple[tuple[str, OwnData], ...] = ()  # files whose text holds data or source of the user's


def write(packed: Packed) -> str:
    return "\n".join(_lines(packed)) + "\n"


def _lines(packed: Packed) -> Iterator[str]:
    yield f"{packed.run}, packed by torchsleuth {__version__}"
    yield f"command: {packed.command}"
    yield ""
    names = [row[0] for row in packed.rows] + [one.name for one in packed.left_out]
    wide = max(map(len, names), default=0)
    for name, nbytes, holds_data in packed.rows:
        yield f"  {name:{wide}}  {nbytes:>12,} bytes  {'TENSOR DATA' if holds_data else 'text'}"
    data = sum(nbytes for _, nbytes, holds_data in packed.rows if holds_data)
    yield f"tensor data: {data:,} bytes" if data else "tensor data: none"
    if packed.own:
        yield ""
        yield "from your program:"
        for name, own in packed.own:
            yield f"  {name:{wide}}  {', '.join(own.phrases)}"
    if packed.left_out:
        yield ""
        yield "left out:"
        for one in packed.left_out:
            yield f"  {one.name:{wide}}  {one.nbytes:>12,} bytes  {one.why}"
    yield ""
    yield from _environment(packed)
    yield from _redactions(packed)


def _environment(packed: Packed) -> Iterator[str]:
    if not packed.environment:
        yield "environment variables carried: none"
        return
    yield "environment variables carried:"
    for name, value in packed.environment:
        yield f"  {name}={value}"


def _redactions(packed: Packed) -> Iterator[str]:
    replaced = packed.redactor.replaced
    yield "redacted: " + (", ".join(f"{label} {count} times" for label, count in replaced.most_common()) or "nothing")
    left = packed.redactor.paths_left
    if left:
        yield "other paths, left as they are (--redact TEXT takes one out):"
        for path, count in left.most_common(_MOST_PATHS):
            yield f"  {path}  {count} times"
        if len(left) > _MOST_PATHS:
            yield f"  and {len(left) - _MOST_PATHS} more"
