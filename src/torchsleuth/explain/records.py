"""Reads torch's structured trace, line by line: what TORCH_TRACE leaves in its folder.

A record is one line, a log prefix and then JSON; its payload follows in lines that begin with a tab.  A line that
cannot be read is counted and left out: a program that was killed leaves one.  The record holds a digest of its payload,
so a payload that was changed or cut is known to be so; it is counted, and the record comes without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PREFIX = re.compile(r"^(?:\[rank(\d+)\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) [^\]]*\] (?=\{)")
_LARGEST_PAYLOAD = 64 * 2**20  # characters; what is longer is cut
_SEARCHED = 4 * 2**20  # bytes: a file cut at its start may begin with the rest of a long payload
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
    corrupt: bool = False  # its payload is not the one that was written, and was left out

    @property
    def name(self) -> str:
        """Of an artifact; else the kind."""
        return str(self.data.get("name", self.kind)) if isinstance(self.data, dict) else self.kind


@dataclass
class Reading:
    """What went wrong, and the names of files that the trace numbers."""

    broken_lines: int = 0
    corrupt_payloads: int = 0
    lines_before_first: int = 0  # payload lines of a record whose own line is not in the trace
    first: Record | None = None  # of the file that is being read
    ranks: dict[str, str] = field(default_factory=dict)  # by process number, in the file that is being read
    files: dict[str, dict[int, str]] = field(default_factory=dict)

    def file(self, process: str, number: Any) -> str:
        if not isinstance(number, int):
            return str(number or "")
        # A fork goes on with the numbers of its parent, whose trace holds the names.
        tables = (self.files.get(process, {}), *self.files.values())
        return next((table[number] for table in tables if number in table), "")


def trace_files(folder: Path) -> list[Path]:
    """The files that torch wrote below a folder."""
    return sorted(p for p in folder.rglob("*.log") if p.is_file()) if folder.is_dir() else [folder]


def holds_records(path: Path) -> bool:
    """Whether a file, whatever its name, has a line of a trace within its first part."""
    try:
        with path.open("rb") as file:
            head = file.read(_SEARCHED).decode("utf-8", errors="replace")
    except OSError:
        return False
    return any(_PREFIX.match(line) for line in head.split("\n"))


def _ranks_in(path: Path) -> dict[str, str]:
    """The rank of each process that has one: until torch.distributed is initialised its lines do not tell."""
    ranks: dict[str, set[str]] = {}
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line.startswith("[rank") and (found := _PREFIX.match(line)) is not None:
                ranks.setdefault(found[2], set()).add(found[1])
    return {process: min(numbers) for process, numbers in ranks.items() if len(numbers) == 1}


def read(path: Path, reading: Reading) -> Iterator[Record]:
    reading.ranks = _ranks_in(path)
    # Only "\n" ends a line: a payload may hold a carriage return, which is part of what its digest was made of.
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        yield from parse(lines, reading)


def parse(lines: Iterable[str], reading: Reading) -> Iterator[Record]:
    head: _Head | None = None
    payload: list[str] = []
    size = 0
    begun = False
    reading.first = None
    for line in lines:
        if line.startswith("\t"):
            size += len(line)
            reading.lines_before_first += not begun
            if size < _LARGEST_PAYLOAD:
                payload.append(line[1:])
            continue
        if head is not None:
            yield from _record(head, "".join(payload), reading, whole=size < _LARGEST_PAYLOAD)
        payload, size, begun = [], 0, True
        head = _head(line, reading)
    if head is not None:
        yield from _record(head, "".join(payload), reading, whole=size < _LARGEST_PAYLOAD)


_Head = tuple[dict[str, Any], str]  # the record's JSON, the process


def _head(line: str, reading: Reading) -> _Head | None:
    found = _PREFIX.match(line)
    if found is None:
        reading.broken_lines += bool(line.strip())
        return None
    try:
        data = json.loads(line[found.end() :])
    except ValueError:
        reading.broken_lines += 1
        return None
    rank = found[1] if found[1] is not None else data.get("rank", reading.ranks.get(found[2]))
    return data, found[2] if rank is None else f"{found[2]} rank {rank}"


def _record(head: _Head, payload: str, reading: Reading, *, whole: bool) -> Iterator[Record]:
    """`whole`: nothing was cut off the payload here."""
    data, process = head
    kind = next((key for key in data if key not in _NO_KIND), "")
    if kind == "str":
        text = data["str"]
        if isinstance(text, list) and len(text) == 2:
            reading.files.setdefault(process, {})[text[1]] = str(text[0])
        return
    if kind:
        corrupt = whole and not _has_digest(payload, data.get("has_payload"))
        reading.corrupt_payloads += corrupt
        text = "" if corrupt else payload
        record = Record(kind, data[kind], text, process, _compile_id(data), int(data.get("attempt") or 0), corrupt)
        reading.first = reading.first or record
        yield record


def _has_digest(payload: str, digest: Any) -> bool:
    """Whether a payload is the one that was written; records without a digest are taken as they are."""
    if not isinstance(digest, str):
        return True
    text = payload.removesuffix("\n")
    return hashlib.md5(text.encode("utf-8", errors="replace"), usedforsecurity=False).hexdigest() == digest


def _compile_id(data: dict[str, Any]) -> str:
    autograd = data.get("compiled_autograd_id")
    if data.get("frame_id") is None:
        return "" if autograd is None else f"!{autograd}"
    before = "" if autograd is None else f"!{autograd}/"
    return f"{before}{data['frame_id']}/{data.get('frame_compile_id')}"
