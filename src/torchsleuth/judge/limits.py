"""How much memory a trial may take."""

from __future__ import annotations

from torchsleuth.watch.free_memory import available_memory

_SHARE = 0.8


def default_memory_limit(at_once: int = 1) -> int:
    """Of each trial, where `at_once` may run: together 80 % of what is available now.

    So the kernel never has to choose a victim.
    """
    return int(available_memory() * _SHARE / at_once)
