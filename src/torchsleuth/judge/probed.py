"""What probing the processor left behind.

Inductor asks what the processor can do anew in each empty cache folder, by compiling: 9 s each time.  The answers stand
in one folder of the user, as the libraries that it built to find out; nothing else is kept there.  A copy of them in an
empty cache folder makes a process no less fresh: it would have built the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

_SETTLED = 5.0  # seconds since a library was last written: another process may be linking it


def warm_folder() -> Path:
    """Below the temporary folder and writable by this user alone: libraries from it are loaded."""
    folder = Path(tempfile.gettempdir()) / f"torchsleuth-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="torchsleuth-"))
    return folder


def seed(cache: Path) -> None:
    """What is known of the processor, into the cache folder of a process that is about to start.

    Inductor names these files by what is in them, the compiler and its flags: it does not look at those of another.
    """
    now = time.time()
    for library in warm_folder().glob("*/*.so"):
        source = library.with_suffix(".cpp")
        if now - library.stat().st_mtime < _SETTLED or not source.exists():
            continue
        place = cache / library.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for file in (source, library):
            shutil.copy2(file, place)
