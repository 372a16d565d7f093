"""How long a stage may honestly last: a large graph compiles for long, and longer where kernels are tuned."""

from __future__ import annotations

from torchsleuth.case.failure import Phase

_COMPILING_ONE = 0.5  # seconds an operator
_RUNNING_ONE = 0.05
WHILE_TUNING = 5.0  # many versions of a kernel are compiled and timed


def patience(least: float, phase: Phase, operators: int, *, tunes: bool) -> float:
    """Seconds, after which a hang is suspected."""
    seconds = least + (_COMPILING_ONE if phase.compiling else _RUNNING_ONE) * operators
    return seconds * WHILE_TUNING if tunes else seconds
