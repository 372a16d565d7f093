"""Does a repro still fail?  One row an interpreter, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Failure, Phase
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.verify import run_fresh

Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    python: str
    version: str = ""
    torch: str = ""
    runs: int = 0
    alike: int = 0
    otherwise: int = 0
    passed: int = 0
    unknown: int = 0
    eager: Match | None = None  # with compilation off; None: not run
    said: str = ""  # how it fails where it does not fail alike; how eager fails
    error: str = ""  # why nothing could be run

    @property
    def verified(self) -> bool:
        return self.runs >= 1 and self.alike == self.runs and self.eager is Match.PASSED

    @property
    def eager_passes(self) -> bool | None:
        """None where the run with compilation off was cut short."""
        return {Match.PASSED: True, Match.SAME: False, Match.OTHER: False}.get(self.eager) if self.eager else None


@dataclass(frozen=True)
class Question:
    """A script, and how often and how long it is run under each interpreter."""

    script: Path
    want: Failure | None  # None: nothing is recorded, so the first failure seen is the measure
    environment: Mapping[str, str]
    runs: int
    deadline: float

    def run(self, python: str, *, eager: bool = False) -> Outcome:
        phase = self.want.phase if self.want else Phase.RUN_FORWARD
        return run_fresh(
            self.script, phase, python=python, environment=self.environment, deadline=self.deadline, eager=eager
        )


def try_under(question: Question, row: Row, say: Say) -> tuple[Row, Failure | None]:
    """The row filled in, and the failure that was the measure.

    One run after the other in this thread: Ctrl-C ends the one that goes on, and cleans up behind it.
    """
    want = question.want
    matches: list[Match] = []
    said = ""
    for number in range(1, question.runs + 1):
        say(f"python {row.version}, torch {row.torch}: run {number} of {question.runs}")
        outcome = question.run(row.python)
        want = want or outcome.failure
        seen = _match(outcome, want)
        matches.append(seen)
        if seen not in (Match.SAME, Match.PASSED):
            said = said or outcome.reason
    say(f"python {row.version}, torch {row.torch}: with compilation switched off")
    eager = question.run(row.python, eager=True)
    off = _match(eager, want)
    said = said if off is Match.PASSED else f"eager: {eager.reason}"
    counts = {kind: matches.count(kind) for kind in Match}
    filled = replace(
        row,
        runs=question.runs,
        alike=counts[Match.SAME],
        otherwise=counts[Match.OTHER],
        passed=counts[Match.PASSED],
        unknown=counts[Match.UNKNOWN] + counts[Match.INVALID],
        eager=off,
        said=said,
    )
    return filled, want


def _match(outcome: Outcome, want: Failure | None) -> Match:
    if want is not None:
        return match(outcome, Target(want))
    return Match.PASSED if outcome.verdict is Verdict.PASSED else Match.UNKNOWN


def table(rows: Sequence[Row]) -> list[str]:
    cells = [("python", "torch", "compiled", "eager", "interpreter"), *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    lines = []
    for number, row in enumerate(cells):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        said = rows[number - 1].error or rows[number - 1].said if number else ""
        if said:
            lines.append(f"    {' '.join(said.split())[:300]}")
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    if row.error:
        return row.version or "-", row.torch or "-", "not run", "-", row.python
    eager = {True: "passes", False: "fails", None: "not known"}[row.eager_passes]
    return row.version, row.torch, _compiled(row), eager, row.python


def _compiled(row: Row) -> str:
    if row.passed == row.runs:
        return f"passes, {row.runs} of {row.runs}"
    counts = [
        (row.alike, "failed the same way"),
        (row.otherwise, "failed in another way"),
        (row.passed, "passed"),
        (row.unknown, "not known"),
    ]
    shown = [f"{count} of {row.runs} {what}" for count, what in counts if count]
    return ", ".join(shown)


def conclusion(rows: Sequence[Row], recorded: Failure | None) -> str:
    tried = [row for row in rows if not row.error]
    if not tried:
        return "not run anywhere"
    if all(row.verified for row in tried):
        return "verified: it fails the same way in every run" + (
            " where it could be run" if len(tried) < len(rows) else ""
        )
    if all(row.passed == row.runs for row in tried):
        return "it does not fail any more" if recorded else "it does not fail"
    if any(row.eager_passes is False for row in tried):
        return "not verified: it also fails with compilation off, so it shows no fault of the compiler"
    if any(row.eager_passes is None for row in tried):
        return "not verified: whether it passes with compilation off is not known"
    if any(row.unknown for row in tried):
        return "not verified: not every run came to an end that says something"
    if not any(row.alike for row in tried):
        return "not verified: it fails in another way than recorded"
    return "not verified: it does not fail the same way in every run"


def to_json(script: Path, recorded: Failure | None, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "schema": 1,
        "script": str(script),
        "recorded": recorded.fingerprint.line if recorded else None,
        "verified": bool(rows) and all(row.verified for row in rows),
        "interpreters": [
            {
                "python": row.python,
                "version": row.version or None,
                "torch": row.torch or None,
                "runs": row.runs,
                "failed_alike": row.alike,
                "failed_otherwise": row.otherwise,
                "passed": row.passed,
                "eager_passes": row.eager_passes,
                "said": row.said or None,
                "error": row.error or None,
            }
            for row in rows
        ],
    }
