"""The file format of a record: a zip archive of answers and of the files that came with them.

`answers.jsonl` has one line for each answer, in the order in which they were given; `files/` holds what processes left
behind, by digest.  Paths are placeholders (see `places`).
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaying.places import Places

NAME = "record.zip"
_ANSWERS = "answers.jsonl"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # archives of the same answers are the same
_TENSORS = ".safetensors"
MOST_BYTES = 400_000
_OF_A_MACHINE = re.compile(r"(?<![\w@.-])/(?:home|root|Users|work|tmp|mnt)/[\w.-]+")


@dataclass(frozen=True)
class Answer:
    """What was answered to one question; `files` are by path, all paths as placeholders."""

    key: str
    asked: str  # the question in one line, for people
    said: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def restore(self, places: Places) -> None:
        """Put the files where they stood."""
        for name, content in self.files.items():
            path = Path(places.show(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_shown(content, places))


def digest(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def hidden(data: Any, places: Places) -> Any:
    """JSON data with placeholders in the place of paths."""
    return json.loads(places.hide(json.dumps(data, ensure_ascii=False)))


def shown(data: Any, places: Places) -> Any:
    """JSON data with paths in the place of placeholders."""
    return json.loads(places.show(json.dumps(data, ensure_ascii=False)))


def kept_file(path: Path, places: Places) -> bytes:
    """The content of a file, for a record: text with placeholders; of tensors the header, and zeros."""
    content = path.read_bytes()
    if path.suffix == _TENSORS:
        header = 8 + int.from_bytes(content[:8], "little")
        return content[:header] + b"\0" * (len(content) - header)
    try:
        return places.hide(content.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return content


def _shown(content: bytes, places: Places) -> bytes:
    try:
        return places.show(content.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return content


def write(path: Path, answers: Iterable[Answer]) -> None:
    files: dict[str, bytes] = {}
    lines = []
    for one in answers:
        names = {name: digest(content) for name, content in one.files.items()}
        files |= {names[name]: content for name, content in one.files.items()}
        lines.append(json.dumps({"key": one.key, "asked": one.asked, "said": one.said, "files": names}))
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(_member(_ANSWERS), "\n".join(lines) + "\n")
        for name in sorted(files):
            archive.writestr(_member(f"files/{name}"), files[name])


def read(path: Path) -> list[Answer]:
    with zipfile.ZipFile(path) as archive:
        rows = [json.loads(line) for line in archive.read(_ANSWERS).decode().splitlines()]
        contents = {name: archive.read(name) for name in archive.namelist()}
    return [
        Answer(
            row["key"],
            row["asked"],
            row["said"],
            {name: contents[f"files/{content}"] for name, content in row["files"].items()},
        )
        for row in rows
    ]


def faults(path: Path) -> list[str]:
    """Say what keeps a record out of the repository: its size, and paths of the machine that made it."""
    found = []
    if path.stat().st_size > MOST_BYTES:
        found.append(f"the record takes {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(name).decode(errors="replace") for name in archive.namelist()]
    left = sorted({place for text in texts for place in _OF_A_MACHINE.findall(text)})
    if left:
        found.append(f"paths of this machine are left in it: {', '.join(left[:8])}")
    return found


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
