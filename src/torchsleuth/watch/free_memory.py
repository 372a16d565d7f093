"""How much memory can still be taken, and whether comparing a call with eager would fit in it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# What comparing takes at its worst, in sizes of what the call is given: two results with their gradients, and a float64
# run on copies of its own (docs/measurements.md); of halves, a float64 run is four times as large.
_SIZES = 12


def available_memory() -> int:
    """Bytes that can still be taken, in the machine and in this container, whichever is less."""
    return min(_of_machine(), _of_container(Path("/sys/fs/cgroup")))


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
