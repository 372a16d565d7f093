"""The folder that a run writes into: a new one, or that of the same command cut short; none where nothing was run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.commands import going_on
from torchsleuth.errors import OutputUnwritable

_DEFAULT_PARENT = "torchsleuth-out"
_LEAST_ROOM = 2**20  # bytes; a disk without so much takes not even the result


def make_output_folder(wanted: Path | None, words: Sequence[str], command: Sequence[str] = ()) -> Path:
    """A new folder each run.  An existing one that is not empty is written into only where `command` was cut short."""
    program = next((Path(w).stem for w in words if w.endswith(".py")), Path(words[0]).name)
    plain = re.sub(r"\W+", "-", program).strip("-") or "program"
    out = wanted or Path(_DEFAULT_PARENT) / f"{datetime.now():%Y%m%d-%H%M%S}-{plain}"
    try:
        number = 1
        chosen = out
        while wanted is None and chosen.exists():
            number += 1
            chosen = out.with_name(f"{out.name}-{number}")
        goes_on = bool(command) and going_on.was_begun(chosen, command)
        if goes_on:
            going_on.clear(chosen)
        elif chosen.is_dir() and any(chosen.iterdir()):
            raise OutputUnwritable(f"{chosen} is not empty. Name another folder with --out, or remove this one.")
        chosen.mkdir(parents=True, exist_ok=True)
        _probe(chosen)
        if command:
            going_on.begin(chosen, command)
    except OSError as error:
        raise files.unwritable(out, error) from None
    return chosen.resolve()


def _probe(out: Path) -> None:
    probe = out / ".torchsleuth"
    try:
        probe.write_bytes(b"\0" * _LEAST_ROOM)
        probe.unlink()
    except OSError:
        with suppress(OSError):
            probe.unlink()
        give_up(out)
        raise


def give_up(out: Path) -> None:
    """The program was not started: nothing of the run stays."""
    shutil.rmtree(out / "logs", ignore_errors=True)
    with suppress(OSError):  # what is not empty is not ours
        out.rmdir()
        if out.parent.name == _DEFAULT_PARENT:
            out.parent.rmdir()
