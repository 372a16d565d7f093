"""Reads torch's structured trace, line by line: what TORCH_TRACE leaves in its folder.

A record is one line, a log prefix and then JSON; its payload follows in lines that begin with a tab.  A line that
cannot be read is counted and left out: a program that was killed leaves one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PREFIX = re.compile(r"^(?:\[rank(\d+)\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) [^\]]*\] (?=\{)")
_LARGEST_PAYLOAD = 64 * 2**20  # characters; what is longer is cut
_NO_KIND = frozenset(
    "rank frame_id frame_compile_id attempt compiled_autograd_id has_payload stack process pathname lineno".split()
)


@dataclass(frozen=True)
class Record:
    kind: str  # "artifact", "dynamo_start", ...
    data: Any  # what stands under that key
    payload: str
    process: str  # the process that wrote it
    compile_id: str  # "2/0", or "" outside of a compilation
    attempt: int

    @property
    def name(self) -> str:
        """Of an artifact; else the kind."""
        return str(self.data.get("name", self.kind)) if isinstance(self.data, dict) else self.kind


@dataclass
class Reading:
    """What went wrong, and the names of files that the trace numbers."""

    broken_lines: int = 0
    files: dict[str, dict[int, str]] = field(default_factory=dict)

    def file(self, process: str, number: Any) -> str:
        if not isinstance(number, int):
            return str(number or "")
        # A fork goes on with the numbers of its parent, whose trace holds the names.
        tables = (self.files.get(process, {}), *self.files.values())
        return next((table[number] for table in tables if number in table), "")


def trace_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.log") if p.is_file()) if folder.is_dir() else [folder]


def read(path: Path, reading: Reading) -> Iterator[Record]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from parse(lines, reading)


def parse(lines: Iterable[str], reading: Reading) -> Iterator[Record]:
    head: tuple[dict[str, Any], str] | None = None
    payload: list[str] = []
    size = 0
    for line in lines:
        if line.startswith("\t"):
            size += len(line)
            if size < _LARGEST_PAYLOAD:
                payload.append(line[1:])
            continue
        if head is not None:
            yield from _record(*head, "".join(payload), reading)
        payload, size = [], 0
        head = _head(line, reading)
    if head is not None:
        yield from _record(*head, "".join(payload), reading)


def _head(line: str, reading: Reading) -> tuple[dict[str, Any], str] | None:
    found = _PREFIX.match(line)
    if found is None:
        reading.broken_lines += bool(line.strip())
        return None
    try:
        data = json.loads(line[found.end() :])
    except ValueError:
        reading.broken_lines += 1
        return None
    rank = found[1] if found[1] is not None else data.get("rank")
    return data, found[2] if rank is None else f"{found[2]} rank {rank}"


def _record(data: dict[str, Any], process: str, payload: str, reading: Reading) -> Iterator[Record]:
    kind = next((key for key in data if key not in _NO_KIND), "")
    if kind == "str":
        text = data["str"]
        if isinstance(text, list) and len(text) == 2:
            reading.files.setdefault(process, {})[text[1]] = str(text[0])
        return
    if kind:
        yield Record(kind, data[kind], payload, process, _compile_id(data), int(data.get("attempt") or 0))


def _compile_id(data: dict[str, Any]) -> str:
    if data.get("frame_id") is None:
        return ""
    autograd = data.get("compiled_autograd_id")
    before = "" if autograd is None else f"!{autograd}/"
    return f"{before}{data['frame_id']}/{data.get('frame_compile_id')}"
