"""Output folders of earlier runs: which one is meant, what its result.json says, which failure a repro belongs to.

A folder may have come from somebody else: nothing in it is run or unpickled, and paths in it do not lead out of it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.folder import META
from torchsleuth.errors import BadUsage, DamagedCase, NewerSchema
from torchsleuth.write import account
from torchsleuth.write.account import DamagedResult, Entry
from torchsleuth.write.result import SCHEMA

RESULT = "result.json"
OUTPUT = "torchsleuth-out"
_RUN_ONE = "`torchsleuth run python your_program.py` makes one."


def find_run(folder: Path) -> Path:
    """The output folder that is meant: this one, or the newest of those in it."""
    if folder.name == RESULT and folder.is_file():
        return folder.parent
    if not folder.exists():
        where = "here" if folder == Path(OUTPUT) else f"at {folder}"
        raise BadUsage(f"There is no output folder {where}. Name the folder of a run, or begin with one: {_RUN_ONE}")
    if not folder.is_dir():
        raise BadUsage(f"{folder} is a file. Name the folder of a run: the one that holds {RESULT}.")
    if (folder / RESULT).exists():
        return folder
    ended = sorted((r for r in folder.glob(f"*/{RESULT}") if r.is_file()), key=lambda r: (r.stat().st_mtime, str(r)))
    if ended:
        return ended[-1].parent
    if (folder / "logs").is_dir():
        raise BadUsage(
            f"{folder} has no {RESULT}: that run has not ended yet, or was killed. Wait for it, or run it again."
        )
    above = next((p for p in folder.resolve().parents if (p / RESULT).is_file()), None)
    if above is not None:
        raise BadUsage(f"{folder} is a part of a run. Name the whole: {above}")
    raise BadUsage(
        f"{folder} holds no {RESULT}, and no folder in it does. Name the folder of a run, or begin with one: {_RUN_ONE}"
    )


def unfinished_since(run: Path) -> Path | None:
    """A run beside this one that began later and left no result: it goes on, or was killed."""
    began = (run / RESULT).stat().st_mtime
    others = [f.parent for f in run.resolve().parent.glob("*/logs") if not (f.parent / RESULT).exists()]
    later = [f for f in others if f.stat().st_mtime > began]
    return max(later, key=lambda f: f.stat().st_mtime, default=None)


def read_result(run: Path) -> dict[str, Any]:
    """result.json, checked to be one that this version reads."""
    path = run / RESULT
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedResult(f"{path} is damaged ({error}). Run the program under torchsleuth again.") from None
    except OSError as error:
        raise DamagedResult(f"{path} cannot be read: {error.strerror or error}. Check its permissions.") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if type(schema) is not int:
        raise DamagedResult(f"{path} was not written by torchsleuth. Name the output folder of a run.")
    if schema > SCHEMA:
        raise NewerSchema(
            f"{path} was written by a newer torchsleuth: schema {schema}, and this one reads {SCHEMA}. "
            "Upgrade torchsleuth."
        )
    assert isinstance(data, dict)
    account.of_json(data)
    return data


def recorded_failure(script: Path) -> Failure | None:
    """The Failure that a repro was verified with, where it still stands in its output folder."""
    home = script.resolve().parent
    if (home / META).is_file():
        run = home.parent.parent
        entry = _entry(run, case=f"{home.parent.name}/{home.name}") if (run / RESULT).is_file() else None
        return _final(_of_case(home), entry)
    if (home / RESULT).is_file():
        entry = _entry(home, repro=script.name)
        if entry is not None:
            case = home / entry.case if entry.case else None
            inside = case is not None and case.resolve().is_relative_to(home) and (case / META).is_file()
            return _final(_of_case(case) if case is not None and inside else None, entry)
    return None


def _entry(run: Path, *, case: str | None = None, repro: str | None = None) -> Entry | None:
    for entry in account.of_json(read_result(run)).entries:
        if case is not None and entry.case == case:
            return entry
        if repro is not None and entry.repro is not None and entry.repro.path == repro:
            return entry
    return None


def _of_case(folder: Path) -> Failure | None:
    """The failure alone: a Case may have been sent without its tensors."""
    path = folder / META
    try:
        data = json.loads(path.read_text(encoding="utf-8"))["failure"]
        return Failure.from_json(data) if data is not None else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCase(
            f"{path} is damaged ({type(error).__name__}: {error}). "
            "To try the script all the same, copy it into a folder of its own."
        ) from None


def _final(of_case: Failure | None, entry: Entry | None) -> Failure | None:
    """A Case keeps what the program showed; how a process dies alone is known to the result only."""
    if of_case is None or entry is None:
        return of_case or (entry.failure if entry else None)
    if of_case.kind in (Kind.CRASH, Kind.OUT_OF_MEMORY):
        return replace(of_case, fingerprint=entry.failure.fingerprint)
    return of_case
