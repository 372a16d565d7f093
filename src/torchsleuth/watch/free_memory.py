"""How much memory can still be taken, and whether comparing a call with eager would fit in it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What comparing takes at its worst, in sizes of what the call is given: two results with their gradients, and a float64
# run on copies of its own (docs/measurements.md); of halves, a float64 run is four times as large.
_SIZES = 12


def available_memory() -> int:
    """Bytes that can still be taken, in the machine and in this container, whichever is less."""
    return min(_of_machine(), _of_container(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")))


def room_to_compare(inputs: Sequence[Any]) -> bool:
    """Whether the referee would leave the program the memory that it needs."""
    import torch

    seen: dict[int, torch.UntypedStorage] = {}
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            memory = value.untyped_storage()
            seen[memory.data_ptr()] = memory
    needed: Counter[torch.device] = Counter()
    for memory in seen.values():
        needed[memory.device] += memory.nbytes()
    return all(_SIZES * size < _free_on(device) for device, size in needed.items())


def _free_on(device: Any) -> int:
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


def _of_machine() -> int:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    except OSError:
        found = None
    if found:
        return int(found.group(1)) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class _Kept:
    """The files in which one version of control groups keeps what it counts."""

    root: str  # below the place where control groups are mounted
    limit: str
    used: str
    files: tuple[str, ...]  # of memory.stat: pages of files, with those of the groups below


_SECOND = _Kept("", "memory.max", "memory.current", ("inactive_file", "active_file"))
_FIRST = _Kept(
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)  # fmt: skip


def _of_container(mounted: Path, own: Path) -> int:
    """What control groups leave, of both versions; unlimited where none says anything.

    A limit may be set on any group from this process's own up to the root.  In a container the path of its own may be
    one that only the host has: of folders that are not there nothing is asked, and the root is.
    """
    left = [1 << 62]
    for line in _lines(own) or ("0::/", "1:memory:/"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            left += _on_the_way(mounted, path, _SECOND)
        elif "memory" in controllers.split(","):
            left += _on_the_way(mounted, path, _FIRST)
    return min(left)


def _on_the_way(mounted: Path, path: str, kept: _Kept) -> Iterator[int]:
    """From the root to the group at `path`: what each leaves that has a limit."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:  # of a group that stands outside of what is mounted here
        parts = []
    for depth in range(len(parts) + 1):
        left = _left_in(mounted.joinpath(kept.root, *parts[:depth]), kept)
        if left is not None:
            yield left


def _left_in(folder: Path, kept: _Kept) -> int | None:
    """Pages of files count as free, as in MemAvailable: the kernel takes them back before it kills anything."""
    most, now = ("".join(_lines(folder / name)).strip() for name in (kept.limit, kept.used))
    if not (most.isdigit() and now.isdigit()):
        return None
    counted = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    files = sum(int(counted.get(name, 0)) for name in kept.files)
    return max(0, int(most) - max(0, int(now) - files))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
