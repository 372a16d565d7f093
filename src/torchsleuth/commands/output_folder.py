"""The folder that a run writes into: a new one each time, and none left where nothing was run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.errors import OutputUnwritable

_DEFAULT_PARENT = "torchsleuth-out"
_LEAST_ROOM = 2**20  # bytes; a disk without so much takes not even the result


def make_output_folder(wanted: Path | None, words: Sequence[str]) -> Path:
    """A new folder each run; an existing one that is not empty is never written into."""
    program = next((Path(w).stem for w in words if w.endswith(".py")), Path(words[0]).name)
    plain = re.sub(r"\W+", "-", program).strip("-") or "program"
    out = wanted or Path(_DEFAULT_PARENT) / f"{datetime.now():%Y%m%d-%H%M%S}-{plain}"
    try:
        number = 1
        chosen = out
        while wanted is None and chosen.exists():
            number += 1
            chosen = out.with_name(f"{out.name}-{number}")
        if chosen.is_dir() and any(chosen.iterdir()):
            raise OutputUnwritable(f"{chosen} is not empty. Name another folder with --out, or remove this one.")
        chosen.mkdir(parents=True, exist_ok=True)
        _probe(chosen)
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
