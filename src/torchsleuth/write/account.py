"""What a run found, in the words of result.json: enough to tell it on a terminal, now or next week."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.errors import SleuthError
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import Result, RunVerdict, to_json


class DamagedResult(SleuthError):
    """A result.json that is truncated, incomplete, or something else altogether."""


@dataclass(frozen=True)
class ReproEntry:
    path: str  # relative to the output folder
    verified: bool
    runs: int
    failed_runs: int
    form: str
    ops: int
    lines: int
    data_bytes: int


@dataclass(frozen=True)
class Entry:
    """One failure."""

    id: str
    failure: Failure
    component: str
    op: str | None
    source: str | None
    case: str | None  # relative to the output folder
    repro: ReproEntry | None
    why_not: str = ""
    code: str = ""  # the line of source, where it is known
    workaround: str | None = None
    claims: tuple[Claim, ...] = ()
    not_known: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    neighbour: str = ""
    compiler_pass: str | None = None
    module: str | None = None


@dataclass(frozen=True)
class Account:
    verdict: RunVerdict
    exit_code: int
    processes: int
    graphs: int
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]


def of_result(result: Result, out: Path) -> Account:
    """What result.json will say, and what this process knows beyond it."""
    account = of_json(to_json(result, out))
    entries = [_with_more(e, f) for e, f in zip(account.entries, result.findings, strict=True)]
    return replace(account, entries=tuple(entries))


def _with_more(entry: Entry, finding: Finding) -> Entry:
    return replace(
        entry,
        failure=finding.failure,
        why_not=finding.why_not,
        code=finding.culprit.source.code if finding.culprit.source else "",
    )


def of_json(data: Mapping[str, Any]) -> Account:
    """`data` is a result of a schema that this version reads; whatever else is wrong with it raises DamagedResult."""
    try:
        notes = tuple(str(note) for note in data["notes"])
        return Account(
            RunVerdict(data["verdict"]),
            int(data["exit_code"]),
            int(data["watched"]["processes"]),
            int(data["watched"]["graphs"]),
            notes,
            tuple(_entry(row, notes) for row in data["failures"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedResult(f"result.json is incomplete ({what}). Run the program under torchsleuth again.") from None


def _entry(row: Mapping[str, Any], notes: Sequence[str]) -> Entry:
    name, culprit, repro = str(row["id"]), row["culprit"], row["repro"]
    said = next((note.removeprefix(f"{name}: ") for note in notes if note.startswith(f"{name}: ")), "")
    return Entry(
        name,
        Failure(Kind(row["kind"]), Phase(row["phase"]), read_fingerprint(str(row["fingerprint"]))),
        str(row["component"]),
        _text(culprit["op"]),
        _text(culprit["source"]),
        _text(row["case"]),
        None if repro is None else _repro(repro),
        str(row.get("why_not") or said),
        str(culprit.get("code") or ""),
        _text(row["workaround"]),
        tuple(_claim(one) for one in row.get("claims") or ()),
        tuple(map(str, row.get("not_known") or ())),
        tuple(map(str, row.get("lines") or ())),
        str(row.get("nearest_passing") or ""),
        _text(culprit.get("pass")),
        _text(culprit.get("module")),
    )


def _claim(row: Mapping[str, Any]) -> Claim:
    return Claim(
        ClaimKind(row["kind"]),
        Topic(row["topic"]),
        str(row["about"]),
        str(row["text"]),
        tuple(map(str, row["judgements"])),
        str(row["id"]),
    )


def _repro(row: Mapping[str, Any]) -> ReproEntry:
    numbers = {name: int(row[name]) for name in ("runs", "failed_runs", "ops", "lines", "data_bytes")}
    return ReproEntry(path=str(row["path"]), verified=bool(row["verified"]), form=str(row["form"]), **numbers)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def read_fingerprint(line: str) -> Fingerprint:
    """What `Fingerprint.line` was made of; of the frames it holds the last one."""
    found = re.fullmatch(r"(?s)(.*?)(?: @ (\S+\.py:\S+))?", line)
    assert found is not None
    error, _, message = found.group(1).partition(": ")
    return Fingerprint(error, message, (found.group(2),) if found.group(2) else ())
