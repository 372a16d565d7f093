"""What torchsleuth raises.

One small hierarchy.  Every message is a sentence for the user that ends with what to do next; the command line prints
it as one paragraph and exits with `exit_status`.  Nothing here is raised inside a watched program.
"""

from __future__ import annotations


class SleuthError(Exception):
    """Something the user can mend: bad input, a folder that cannot be written, a file that is damaged."""

    exit_status = 2


class BadUsage(SleuthError):
    """The command line asks for something that cannot be done."""


class CommandNotFound(SleuthError):
    """The program to watch does not exist or cannot be executed."""


class OutputUnwritable(SleuthError):
    """The output folder cannot be made or written, or the disk is full."""


class DamagedCase(SleuthError):
    """A Case folder that is truncated, inconsistent, or not a Case at all."""


class NewerSchema(DamagedCase):
    """A Case or result written by a newer torchsleuth."""


class UnsafeGraph(DamagedCase):
    """A graph text that names something which is not an operator."""


class NeedsConsent(SleuthError):
    """A Case that runs a module or source of somebody else's; the user must allow it."""


class JudgeBroken(SleuthError):
    """The judge's own processes cannot be started or keep dying before they judge anything."""
