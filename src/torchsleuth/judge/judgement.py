"""Judgements: what was judged, how, and what came of it, one JSON object a line in `judgements.jsonl`.

Every sentence about a failure names the Judgements that back it, and `torchsleuth audit` makes those again.  For that,
the script of each candidate stands in `candidates/<key>/repro.py`, with its data beside it where it needs any.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchsleuth.case import files
from torchsleuth.errors import SleuthError
from torchsleuth.judge.match import Match

NAME = "judgements.jsonl"
CANDIDATES = "candidates"
SCRIPT = "repro.py"
_MOST_SCRIPT = 32_768  # characters of a script that is kept though no sentence needs it
_MOST_SCRIPTS = 400  # of those


class Engine(str, Enum):
    """What ran a candidate."""

    WORKER = "worker"  # a process forked or spawned from a warm one, which can import torchsleuth
    FRESH = "fresh"  # a fresh interpreter that cannot import torchsleuth
    COMMAND = "command"  # a command of the user's
    PROGRAM = "program"  # the user's program, run again


@dataclass(frozen=True)
class Candidate:
    """What is judged: a script and how it is run."""

    key: str
    source: str = ""
    changes: tuple[str, ...] = ()  # what is different from the failing case, one phrase each
    compiled: bool = True  # False: run with compilation off
    cache_runs: int = 1  # processes that share one cache; the last one counts
    phase: str = "run-forward"


@dataclass(frozen=True)
class Judgement:
    """The outcome of one candidate, on record."""

    id: str
    candidate: str
    match: Match
    engine: Engine
    changes: tuple[str, ...] = ()
    runs: int = 1
    failed_runs: int = 0
    seconds: float = 0.0
    compiled: bool = True
    cache_runs: int = 1
    phase: str = "run-forward"
    reason: str = ""
    command: str = ""  # makes it again, from the output folder

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "match": self.match.value, "engine": self.engine.value, "changes": list(self.changes)}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Judgement:
        try:
            return Judgement(
                id=str(row["id"]),
                candidate=str(row["candidate"]),
                match=Match(row["match"]),
                engine=Engine(row["engine"]),
                changes=tuple(map(str, row["changes"])),
                runs=int(row["runs"]),
                failed_runs=int(row["failed_runs"]),
                seconds=float(row["seconds"]),
                compiled=row.get("compiled") is not False,
                cache_runs=int(row.get("cache_runs", 1)),
                phase=str(row.get("phase", "run-forward")),
                reason=str(row.get("reason", "")),
                command=str(row.get("command") or ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedJudgements(f"a line of {NAME} is damaged ({type(error).__name__}: {error})") from None


@dataclass(frozen=True)
class Judged:
    """The answer about one candidate: how it ended in all runs asked for, and the Judgements that say so."""

    match: Match
    judgements: tuple[Judgement, ...] = ()

    @property
    def fails(self) -> bool:
        return self.match is Match.SAME

    @property
    def passes(self) -> bool:
        return self.match is Match.PASSED


class DamagedJudgements(SleuthError):
    """A line of judgements.jsonl that cannot be read."""


class JudgementLog:
    """Writes judgements as they are made; without a folder it only numbers them."""

    def __init__(self, out: Path | None = None) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], Judgement] = {}
        self._scripts = 0
        for one in read(out) if out is not None else ():
            self._known[_identity(one)] = one

    def note(
        self,
        candidate: Candidate,
        match: Match,
        engine: Engine,
        *,
        runs: int = 1,
        failed: int = 0,
        seconds: float = 0.0,
        reason: str = "",
    ) -> Judgement:
        """Put a judgement on record; one that stands there already keeps its number."""
        with self._lock:
            made = Judgement(
                f"j{len(self._known) + 1}",
                candidate.key,
                match,
                engine,
                candidate.changes,
                runs,
                failed,
                round(seconds, 3),
                candidate.compiled,
                candidate.cache_runs,
                candidate.phase,
                reason[:300],
                _command(candidate, engine),
            )
            known = self._known.setdefault(_identity(made), made)
            if known is made:
                self._append(made)
        if candidate.source and len(candidate.source) <= _MOST_SCRIPT and self._scripts < _MOST_SCRIPTS:
            self.keep(candidate)
        return known

    def keep(self, candidate: Candidate) -> Path | None:
        """Write the script of a candidate, for whoever wants to run it again; return its folder."""
        if self._out is None:
            return None
        place = self._out / CANDIDATES / candidate.key
        script = place / SCRIPT
        if not script.exists():
            place.mkdir(parents=True, exist_ok=True)
            part = place / f".{SCRIPT}.part"
            part.write_text(candidate.source, encoding="utf-8")
            os.replace(part, script)
            self._scripts += 1
        return place

    def _append(self, judgement: Judgement) -> None:
        if self._out is None:
            return
        files.append_line(self._out / NAME, json.dumps(judgement.to_json()).encode())


def read(out: Path) -> list[Judgement]:
    """Read the judgements of an output folder; a line that was cut off by a kill is left out."""
    try:
        lines = (out / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(_rows(lines))


def _rows(lines: Iterable[str]) -> Iterable[Judgement]:
    for line in lines:
        try:
            yield Judgement.from_json(json.loads(line))
        except (ValueError, TypeError, RecursionError, DamagedJudgements):
            continue


def _identity(one: Judgement) -> tuple[str, ...]:
    """Judgements of one candidate by one engine with one result are one judgement, also after a kill."""
    return (one.candidate, one.engine.value, one.match.value, str(one.runs), str(one.failed_runs), str(one.compiled))


def _command(candidate: Candidate, engine: Engine) -> str:
    if engine not in (Engine.WORKER, Engine.FRESH):
        return ""
    off = "" if candidate.compiled else "TORCH_COMPILE_DISABLE=1 "
    once = f"{off}python {CANDIDATES}/{candidate.key}/{SCRIPT}"
    return " && ".join([once] * candidate.cache_runs)
