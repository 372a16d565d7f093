"""What probing the processor left behind.

Inductor asks what the processor can do anew in each empty cache folder, by compiling: 9 s each time.  The answers stand
in one folder of the user, as the libraries that it built to find out; nothing else is kept there.  A copy of them in an
empty cache folder makes a process no less fresh: it would have built the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

HEADERS = "headers-"  # a file so called, with torch's version, says that Inductor's C++ headers are compiled
_SETTLED = 5.0  # seconds since a library was last written: another process may be linking it


def warm_folder() -> Path:
    """Below the temporary folder and writable by this user alone: libraries from it are loaded."""
    folder = _folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if _is_ours(folder) else Path(tempfile.mkdtemp(prefix="torchsleuth-"))


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"torchsleuth-{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def ever_warmed() -> bool:
    """Whether this user had a judge here before, with any torch: the first may take a minute longer."""
    return any(_folder().glob(f"{HEADERS}*"))


def seed(cache: Path) -> None:
    """What is known of the processor, into the cache folder of a process that is about to start.

    Inductor names these files by what is in them, the compiler and its flags: it does not look at those of another.
    What cannot be read or copied is found out anew.
    """
    with contextlib.suppress(OSError):
        if not _is_ours(_folder()):
            return
        for library in _folder().glob("*/*.so"):
            source = library.with_suffix(".cpp")
            if time.time() - library.stat().st_mtime >= _SETTLED and source.exists():
                place = cache / library.parent.name
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)
                shutil.copy2(library, place / f"{library.name}.part")
                (place / f"{library.name}.part").rename(place / library.name)
