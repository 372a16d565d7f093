"""Read the output folder of a run, and list what has to be run to check each of its Claims.

Nothing is run here, and no path of the folder may lead out of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.diagnose.backing import Record, unbacked_entries
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, of
from torchsleuth.errors import BadUsage
from torchsleuth.judge import judgement as judgements
from torchsleuth.judge.judgement import CANDIDATES, SCRIPT, Engine, Judgement
from torchsleuth.judge.match import Match, Target
from torchsleuth.judge.remake import Request
from torchsleuth.reduce.chance import ALWAYS, Chance
from torchsleuth.write import stored
from torchsleuth.write.account import Entry
from torchsleuth.write.audit_report import Row, Verdict

_OWN_SCRIPTS = (Engine.WORKER, Engine.FRESH)


@dataclass(frozen=True)
class Task:
    """One Judgement to be made again, with the script that stands for its candidate."""

    request: Request
    chance: Chance = ALWAYS  # of the failure

    @property
    def key(self) -> tuple[str, str]:
        """What makes two tasks the same one."""
        return self.request.judgement.id, str(self.request.script)


@dataclass(frozen=True)
class Step:
    """One row of the report: decided already, or after its tasks were run."""

    row: Row
    tasks: tuple[Task, ...] = ()


def read_plan(run: Path) -> list[Step]:
    """List the steps of an audit.

    Raises:
        BadUsage: The folder holds no Claims, or names a path outside of itself.
    """
    run = run.resolve()
    rows = stored.read_result(run)["failures"]
    if rows and not any("claims" in row for row in rows):
        raise BadUsage(
            f"{run / stored.RESULT} was written by an older torchsleuth: it holds no claims. "
            "Run the program again with this one to get a result that can be audited."
        )
    record = Record(judgements.read(run))
    entries = stored.read_account(run).entries
    return [step for row, entry in zip(rows, entries, strict=True) for step in _Folder(run, record, entry).steps(row)]


@dataclass(frozen=True)
class _Folder:
    """One failure of an output folder."""

    run: Path
    record: Record
    entry: Entry

    def steps(self, failure: Mapping[str, Any]) -> Iterator[Step]:
        for one in self.entry.claims:
            yield self._step(one)
        for fault in unbacked_entries(failure, self.entry.claims, self.record):
            yield Step(Row(self.entry.id, fault.entry, fault.text, Verdict.NOT_BACKED, fault.why))

    def _step(self, claim: Claim) -> Step:
        fault = self.record.fault(claim)
        tasks = () if fault else tuple(self._tasks(claim))
        fault = fault or _other_backend(claim, tasks)
        if fault:
            return Step(Row(self.entry.id, claim.id, claim.text, Verdict.NOT_BACKED, fault))
        return Step(Row(self.entry.id, claim.id, claim.text, Verdict.NOT_MADE), tasks)

    def _tasks(self, claim: Claim) -> Iterator[Task]:
        for one in self.record.of(claim):
            script = self._candidate(one)
            repro = self._repro() if one.engine is Engine.FRESH else None
            if repro is not None and _is_same_script(repro, script):
                yield self._task(one, repro)  # the file that the user has stands for the candidate
                continue
            yield self._task(one, script)
            if claim.topic is Topic.REPRO and claim.kind in (ClaimKind.FAILS, ClaimKind.PASSES) and repro is not None:
                yield self._task(one, repro)

    def _task(self, judgement: Judgement, script: Path) -> Task:
        chance = self._chance()
        again = judgement.match is Match.SAME and judgement.engine is Engine.WORKER
        target = Target(self.entry.failure)
        return Task(Request(judgement, script, self.run, target, chance.repeats if again else 1), chance)

    def _chance(self) -> Chance:
        """Return how often the failure shows, by what its repro is said to have done."""
        for claim in of(self.entry.claims, Topic.REPRO, ClaimKind.FAILS):
            for one in self.record.of(claim):
                if 0 < one.failed_runs < one.runs:
                    return Chance(one.failed_runs, one.runs)
        return ALWAYS

    def _candidate(self, judgement: Judgement) -> Path:
        if judgement.engine not in _OWN_SCRIPTS:
            return self.run
        return self._inside(f"{CANDIDATES}/{judgement.candidate}/{SCRIPT}")

    def _repro(self) -> Path | None:
        return self._inside(self.entry.repro.path) if self.entry.repro is not None else None

    def _inside(self, name: str) -> Path:
        path = self.run / name
        places = [path, *path.parent.glob("repro_data*")]
        if any(not place.resolve().is_relative_to(self.run) for place in places):
            raise BadUsage(f"{self.run} names a file outside of itself ({name}). Nothing was run; do not trust it.")
        return path


def _other_backend(claim: Claim, tasks: Sequence[Task]) -> str:
    """Check that the script behind a sentence about a backend names that backend."""
    if claim.topic is not Topic.BACKEND or claim.about == "inductor":
        return ""
    for task in tasks:
        if task.request.judgement.engine is Engine.WORKER and not _names(task.request.script, claim.about):
            return f"the script of {task.request.judgement.id} does not use this backend"
    return ""


def _names(script: Path, word: str) -> bool:
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # it cannot be run either, which is said then
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _is_same_script(one: Path, other: Path) -> bool:
    """Compare two scripts without their docstrings, and their data."""
    try:
        return _code(one) == _code(other) and _data(one) == _data(other)
    except OSError:
        return False


def _code(script: Path) -> str:
    text = script.read_text(encoding="utf-8", errors="replace")
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text.strip()
    if not body or ast.get_docstring(ast.Module(body, [])) is None:
        return text.strip()
    return "\n".join(text.splitlines()[body[0].end_lineno or 0 :]).strip()


def _data(script: Path) -> bytes | None:
    data = script.parent / DATA_FILE
    return data.read_bytes() if data.exists() else None
