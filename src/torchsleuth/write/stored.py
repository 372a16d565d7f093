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
from torchsleuth.judge.match import is_same
from torchsleuth.write import account
from torchsleuth.write.account import Account, DamagedResult, Entry
from torchsleuth.write.result import SCHEMA

RESULT = "result.json"
EXPLAINED = "explain.json"
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


def find_explained(folder: Path) -> Path | None:
    """The folder that `explain` wrote, if that is meant: this one, or the newest thing in it."""
    if (folder / EXPLAINED).is_file():
        return folder
    if (folder / RESULT).exists() or not folder.is_dir():
        return None
    ended = [p for name in (RESULT, EXPLAINED) for p in folder.glob(f"*/{name}") if p.is_file()]
    newest = max(ended, key=lambda p: (p.stat().st_mtime, str(p)), default=None)
    return newest.parent if newest is not None and newest.name == EXPLAINED else None


def unfinished_since(run: Path) -> Path | None:
    """A run beside this one that began later and left no result: it goes on, or was killed."""
    began = (run / RESULT).stat().st_mtime
    logs = run.resolve().parent.glob("*/logs")
    others = [f.parent for f in logs if not (f.parent / RESULT).exists() and not (f.parent / EXPLAINED).exists()]
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


def read_account(run: Path) -> Account:
    """What the result says, with what its Cases know beyond it, where they can be read."""
    found = account.of_json(read_result(run))
    return replace(found, entries=tuple(_with_case(entry, run.resolve()) for entry in found.entries))


def _with_case(entry: Entry, run: Path) -> Entry:
    case = _case_of(entry, run)
    try:
        seen = _of_case(case) if case else None
        code = entry.code or (_code_at(entry.source, case) if case and entry.source else "")
    except DamagedCase:
        return entry
    alike = seen is not None and is_same(seen, entry.failure)
    return replace(entry, failure=seen if seen is not None and alike else entry.failure, code=code)


def _code_at(source: str, case: Path) -> str:
    """The text of the line that the result names by file and number alone."""
    try:
        lines = [n["source"] for g in _read_case(case)["graph"].values() for n in g["nodes"].values() if "source" in n]
        return next((str(s["code"]) for s in lines if f"/{s['file']}:{s['line']}".endswith(f"/{source}")), "")
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged(case, error) from None


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
            case = _case_of(entry, home)
            return _final(_of_case(case) if case else None, entry)
    return None


def _case_of(entry: Entry, run: Path) -> Path | None:
    """The folder of its Case, if it is there and inside the run."""
    case = run / entry.case if entry.case else None
    if case is None or not case.resolve().is_relative_to(run) or not (case / META).is_file():
        return None
    return case


def _entry(run: Path, *, case: str | None = None, repro: str | None = None) -> Entry | None:
    for entry in account.of_json(read_result(run)).entries:
        if case is not None and entry.case == case:
            return entry
        if repro is not None and entry.repro is not None and entry.repro.path == repro:
            return entry
    return None


def _of_case(folder: Path) -> Failure | None:
    """The failure alone: a Case may have been sent without its tensors."""
    data = _read_case(folder)
    try:
        return Failure.from_json(data["failure"]) if data["failure"] is not None else None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, error) from None


def _read_case(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, error) from None
    if not isinstance(data, dict):
        raise _damaged(folder, TypeError("it is no object"))
    return data


def _damaged(folder: Path, error: Exception) -> DamagedCase:
    return DamagedCase(
        f"{folder / META} is damaged ({type(error).__name__}: {error}). "
        "To try the script all the same, copy it into a folder of its own."
    )


def _final(of_case: Failure | None, entry: Entry | None) -> Failure | None:
    """A Case keeps what the program showed; how a process dies alone is known to the result only."""
    if of_case is None or entry is None:
        return of_case or (entry.failure if entry else None)
    if of_case.kind in (Kind.CRASH, Kind.OUT_OF_MEMORY):
        return replace(of_case, kind=entry.failure.kind, fingerprint=entry.failure.fingerprint)
    return of_case
