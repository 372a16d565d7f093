"""How much memory a trial may take."""

from __future__ import annotations

import os
import re
from pathlib import Path

_SHARE = 0.8


def default_memory_limit() -> int:
    """80 % of what is available now, so that the kernel never has to choose a victim."""
    return int(available_memory() * _SHARE)


def available_memory() -> int:
    """Bytes that can still be taken, in the machine and in this container, whichever is less."""
    return min(_of_machine(), _of_container(Path("/sys/fs/cgroup")))


def _of_machine() -> int:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    except OSError:
        found = None
    if found:
        return int(found.group(1)) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_container(folder: Path) -> int:
    """What control groups leave, version 2 then 1; unlimited where neither says anything."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (folder / limit).read_text().strip()
            now = (folder / used).read_text().strip()
        except OSError:
            continue
        if most.isdigit() and now.isdigit():
            return max(0, int(most) - int(now))
    return 1 << 62
