"""The one place that writes files: whole or not at all, and a clear word when the disk will not take them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchsleuth.errors import OutputUnwritable

_SURROGATE = re.compile("[\ud800-\udfff]")


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False, default=str)
    if _SURROGATE.search(text):  # a path that is not UTF-8: JSON has its own way to say so
        text = json.dumps(data, indent=1, default=str)
    write_text(path, text + "\n")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that takes the place of `path` when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise unwritable(path.parent, error) from None
    temporary = Path(name)
    try:
        yield temporary
        mode = os.umask(0)
        os.umask(mode)
        temporary.chmod(0o666 & ~mode)
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> OutputUnwritable:
    mend = "Free some space there" if error.errno == errno.ENOSPC else "Check the path and its permissions"
    return OutputUnwritable(
        f"Cannot write {path}: {error.strerror or error}. {mend}, or choose another folder with --out DIR."
    )


def append_line(path: Path, line: bytes) -> None:
    """Append one line; a line that a kill cut off before stays a line of its own."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, (b"\n" if torn else b"") + line + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
