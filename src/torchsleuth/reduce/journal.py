"""Every judgement and every smaller Case or script, on disk as they happen: a killed reduction goes on where it was.

One JSON object a line, appended and never rewritten, so a kill at any moment costs at most the line being written.  A
line that cannot be read is skipped.  A judgement counts only in the setting (torch, machine, environment) it was made
in; the smallest Case or script counts everywhere, since whoever takes it up judges it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchsleuth.case import folder, graph_text
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.errors import DamagedCase
from torchsleuth.judge import applied
from torchsleuth.judge.generated import Noted
from torchsleuth.judge.memory import Question, holds, lasting
from torchsleuth.judge.outcome import Outcome, Verdict

NAME = "journal.jsonl"
_MOST_TEXT = 2000


class Journal:
    """Reads and appends the files `places`, those that are there; without any it remembers in this process alone.

    `looks_for`: what a smaller Case shows where that is not its own failure but what a command of the user's looks for.
    """

    def __init__(
        self, *places: Path, setting: str = "", say: Callable[[str], None] = lambda _: None, looks_for: str = ""
    ) -> None:
        self._places = list(places)
        self._setting = setting
        self._say = say
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Outcome, float]] = {}
        self._smallest: dict[str, Any] | None = None
        self._scripts: dict[str, str] = {}  # by the digest of the script that a reduction began with: its smallest
        self._looks_for = looks_for
        self._noted: set[str] = set()  # a replay comes by the same Cases again
        for row in (row for place in places for row in _rows(place)):
            self._read(row)
        self.begun_with = len(self._known)

    def recall(self, question: Question) -> Outcome | None:
        outcome, given = self._known.get(question.key, (None, 0.0))
        return outcome if outcome is not None and holds(outcome, given, question.deadline) else None

    def keep(self, question: Question, outcome: Outcome) -> None:
        if not lasting(outcome):
            return
        with self._lock:
            self._known[question.key] = (outcome, question.deadline)
            self._append(_judgement(question, outcome, self._setting))

    def learn(self, other: Journal) -> None:
        """Takes over what another journal of the same setting knows."""
        with other._lock:
            known = dict(other._known)
        for key, (outcome, given) in known.items():
            if key not in self._known:
                with self._lock:
                    self._known[key] = (outcome, given)
                    self._append(_row(key, outcome, given, self._setting))

    def note_smaller(self, case: Case) -> None:
        known = replace(case, failure=None)  # whose text would be most of the file; whoever reads it has it
        noted = {"graph": graph_text.write(case.graph), "case": folder.to_json(known)}
        self._smallest = noted
        with self._lock:
            if _digest(noted) not in self._noted:
                self._noted.add(_digest(noted))
                kind = {"looks_for": self._looks_for} if self._looks_for else {}
                self._append({"smaller": operators(case.graph), **kind, **noted})

    def smallest(self, *, ours: bool) -> Case | None:
        """The last Case that was noted, checked as any Case that somebody sent."""
        case = self._smallest["case"] if self._smallest is not None else None
        if self._smallest is None or not isinstance(case, dict) or "check" not in case:
            return None  # a row from before `check` was kept does not say what is compared with eager
        try:
            return folder.from_json(case, str(self._smallest["graph"]), ours=ours)
        except (DamagedCase, KeyError):
            return None

    def note_smaller_script(self, text: str, whole: str) -> None:
        """`text` fails as `whole` does, with which the reduction began."""
        of = _digest({"script": whole})
        with self._lock:
            if self._scripts.get(of) != text:
                self._scripts[of] = text
                self._append({"script": text, "of": of})

    def smallest_script(self, whole: str) -> str | None:
        """The last script that was noted for `whole`; whoever takes it up judges it again."""
        return self._scripts.get(_digest({"script": whole}))

    def _read(self, row: Mapping[str, Any]) -> None:
        try:
            if "smaller" in row:
                if row.get("looks_for", "") != self._looks_for:
                    return
                self._smallest = {"graph": row["graph"], "case": row["case"]}
                self._noted.add(_digest(self._smallest))
            elif "script" in row:
                self._scripts[str(row["of"])] = str(row["script"])
            elif row["setting"] == self._setting:
                failure = Failure.from_json(row["failure"]) if row["failure"] else None
                seconds, eager = float(row["seconds"]), float(row["eager_seconds"])
                noted = Noted(tuple(map(str, row["noted"]["nodes"])), str(row["noted"]["operators"]))
                said = str(row["reason"])
                did = applied.from_json(row.get("applied", ()))
                outcome = Outcome(Verdict(row["verdict"]), failure, said, seconds, eager, noted=noted, applied=did)
                self._known[str(row["key"])] = (outcome, float(row["deadline"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return

    def _append(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(row, default=str).encode() + b"\n"
        for place in list(self._places):
            try:
                _write_line(place, line)
            except OSError as error:
                self._places.remove(place)
                self._say(f"the journal {place} cannot be written ({error.strerror or error}): going on without it")


def _digest(noted: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(noted, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def _judgement(question: Question, outcome: Outcome, setting: str) -> dict[str, Any]:
    return _row(question.key, outcome, question.deadline, setting)


def _row(key: str, outcome: Outcome, deadline: float, setting: str) -> dict[str, Any]:
    failure = outcome.failure.to_json() if outcome.failure else None
    if failure is not None and outcome.failure is not None and outcome.failure.kind is not Kind.ACCURACY:
        failure["text"] = failure["text"][-_MOST_TEXT:]  # of wrong numbers it is the whole account, read again later
    return {
        "key": key, "setting": setting, "verdict": outcome.verdict.value, "failure": failure,
        "reason": outcome.reason[:_MOST_TEXT], "seconds": outcome.seconds, "eager_seconds": outcome.eager_seconds,
        "deadline": deadline, "noted": {"nodes": outcome.noted.nodes, "operators": outcome.noted.operators},
        **({"applied": applied.to_json(outcome.applied)} if outcome.applied else {}),
    }  # fmt: skip


def _write_line(place: Path, line: bytes) -> None:
    handle = os.open(place, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line  # what was being written when somebody was killed
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = place.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
