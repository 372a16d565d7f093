"""Replaces a published script and its data file so that a complete pair stands there at every moment.

A process may be killed between any two file operations.  The new data file is therefore written under a name that the
script in place does not read; renaming the new script into place is the one step that switches from the old pair to the
new one; data that no script reads is removed last.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from contextlib import suppress
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.program.render import DATA_FILE

SCRIPT = "repro.py"
_STEM = Path(DATA_FILE).stem
_DATA_NAME = re.compile(rf"{_STEM}(?:_[0-9a-f]{{12}})?\.pt")


def publish(text: str, data: Path | None, folder: Path) -> tuple[str, int]:
    """Put a script, and the data file that it reads as `repro_data.pt`, into `folder`.

    Return the text as written, which names the data file that was chosen, and the size of that file in bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    if data is not None and data.exists():
        name = _free_name(folder, data)
        with files.replacing(folder / name) as temporary:
            shutil.copy(data, temporary)
        size = data.stat().st_size
        text = text.replace(DATA_FILE, name)
    files.write_text(folder / SCRIPT, text)
    _remove_unread_data(folder, text)
    return text, size


def rewrite(script: Path, text: str, published: str) -> str:
    """Write another text of a published script, such as one with a longer docstring; it reads the same data file."""
    found = _DATA_NAME.search(published)
    text = text.replace(DATA_FILE, found.group()) if found else text
    files.write_text(script, text)
    return text


def _free_name(folder: Path, data: Path) -> str:
    """`repro_data.pt` unless a file of that name with other content stands there: the script in place may read it."""
    taken = folder / DATA_FILE
    digest = _digest(data)
    if not taken.exists() or _digest(taken) == digest:
        return DATA_FILE
    return f"{_STEM}_{digest}.pt"


def _digest(path: Path) -> str:
    found = hashlib.blake2b(digest_size=6)
    with path.open("rb") as file:
        while block := file.read(2**20):
            found.update(block)
    return found.hexdigest()


def _remove_unread_data(folder: Path, text: str) -> None:
    for path in folder.iterdir():
        if _DATA_NAME.fullmatch(path.name) and path.name not in text:
            with suppress(OSError):  # a file too many does no harm
                path.unlink()
