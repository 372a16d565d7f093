"""Faults of torchsleuth's own: written down with their traceback, so that what was found is not lost with them."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from torchsleuth.errors import SleuthError

LOG = Path("logs") / "trouble.log"  # in the output folder
_LONGEST = 200  # characters of a message

T = TypeVar("T")


class OwnFault(SleuthError):
    """Nothing that the user did, and nothing that the program did."""

    exit_status = 70  # EX_SOFTWARE: none of the numbers that tell what was found


class Faults:
    """Of one run."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._notes))

    def keep(self, known: T, doing: str, step: Callable[[], T]) -> T:
        """What `step` gives, or what is known already where it fails."""
        try:
            return step()
        except Exception as error:
            self.note(doing, error)
            return known

    def note(self, doing: str, error: Exception) -> str:
        """Called while `error` is handled; a sentence about it, which is a note of the result, too."""
        said = f"torchsleuth itself failed while {doing} ({_named(error)}); "
        said += f"see {LOG}, and please report it" if write_down(self._out, doing) else "its log could not be written"
        self._notes.append(said)
        return said


def write_down(out: Path, doing: str) -> bool:
    """The traceback of what is being handled, at the end of the log; whether the disk took it."""
    try:
        (out / LOG).parent.mkdir(parents=True, exist_ok=True)
        with (out / LOG).open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"while {doing}:\n{traceback.format_exc()}\n")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def told_apart(out: Path) -> Iterator[None]:
    """A fault of ours that nothing contained leaves as an OwnFault: it must not look like a result."""
    try:
        yield
    except (SleuthError, OSError):  # the user's, or the machine's, and said as such
        raise
    except Exception as error:
        if not write_down(out, "running"):
            raise
        raise OwnFault(
            f"this is a fault of torchsleuth's own ({_named(error)}), and says nothing about your program. "
            f"The traceback is in {out / LOG}, and what was found until then is in {out}. Please report it."
        ) from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:_LONGEST]
