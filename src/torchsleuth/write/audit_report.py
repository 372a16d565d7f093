"""What `torchsleuth audit` found: a row for each Claim, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchsleuth.judge.judgement import Judgement
from torchsleuth.judge.match import Match
from torchsleuth.judge.remake import Remade

SCHEMA = 1
_MOST_TEXT = 200  # characters of a sentence
_MOST_WHY = 400


class Verdict(str, Enum):
    """Whether a sentence of result.json holds; the later one wins where a Claim rests on several Judgements."""

    HOLDS = "holds"
    NOT_MADE = "not-made"  # cannot be made here
    DOES_NOT_HOLD = "does-not-hold"
    NOT_BACKED = "not-backed"  # by any judgement on record

    @property
    def is_false(self) -> bool:
        return self in (Verdict.DOES_NOT_HOLD, Verdict.NOT_BACKED)


@dataclass(frozen=True)
class Again:
    """One Judgement made again, and whether it gave what is on record."""

    judgement: Judgement
    script: str  # relative to the folder; empty where a command was run
    remade: Remade
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One sentence of result.json."""

    failure: str
    id: str  # of the Claim, or the key of result.json that no Claim backs
    text: str
    verdict: Verdict
    why: str = ""
    judgements: tuple[Again, ...] = ()


@dataclass(frozen=True)
class Report:
    """What was found in one folder, under one interpreter."""

    folder: str
    python: str
    torch: str
    rows: tuple[Row, ...]
    interrupted: bool = False

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def any_false(self) -> bool:
        return any(row.verdict.is_false for row in self.rows)


_SHOWN = {
    Verdict.HOLDS: "holds",
    Verdict.NOT_MADE: "cannot be made here",
    Verdict.DOES_NOT_HOLD: "does not hold",
    Verdict.NOT_BACKED: "not backed",
}


def lines(report: Report) -> Iterator[str]:
    """Write the table; the last line counts."""
    names = [f"{row.failure} {row.id}" for row in report.rows]
    width = max(map(len, names), default=0)
    for name, row in zip(names, report.rows, strict=True):
        yield f"{name:<{width}}  {_one_line(row.text, _MOST_TEXT)}"
        why = f": {_one_line(row.why, _MOST_WHY)}" if row.why else ""
        cut = report.interrupted and row.verdict is Verdict.NOT_MADE
        yield f"{'':<{width}}    {'not made' if cut else _SHOWN[row.verdict]}{why}"
    yield conclusion(report)


def conclusion(report: Report) -> str:
    rows, holding = report.rows, report.count(Verdict.HOLDS)
    where = f"{report.folder}: "
    if not rows:
        return f"{where}no claims to audit"
    if holding == len(rows):
        return f"{where}all {len(rows)} claims hold" if len(rows) > 1 else f"{where}the claim holds"
    parts = [f"{holding} of {len(rows)} claims hold"]
    for verdict, one, several in _COUNTED:
        number = report.count(verdict)
        parts += [f"{number} {one if number == 1 else several}"] if number else []
    return f"{where}{'interrupted: ' if report.interrupted else ''}{', '.join(parts)}"


_COUNTED = (
    (Verdict.DOES_NOT_HOLD, "does not hold", "do not hold"),
    (Verdict.NOT_BACKED, "is not backed by a judgement", "are not backed by a judgement"),
    (Verdict.NOT_MADE, "could not be made here", "could not be made here"),
)


def _one_line(text: str, most: int) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= most else f"{joined[: most - 3]}..."


def to_json(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "folder": report.folder,
        "python": report.python,
        "torch": report.torch,
        "holds": not report.any_false,
        "interrupted": report.interrupted,
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "claims": [_row(row) for row in report.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "failure": row.failure,
        "id": row.id,
        "text": row.text,
        "verdict": row.verdict.value,
        "why": row.why or None,
        "judgements": [_again(one) for one in row.judgements],
    }


def _again(one: Again) -> dict[str, Any]:
    recorded, matches = one.judgement, one.remade.matches
    return {
        "id": recorded.id,
        "script": one.script or None,
        "recorded": recorded.match.value,
        "recorded_runs": recorded.runs,
        "recorded_failed_runs": recorded.failed_runs,
        "matches": [match.value for match in matches],
        "runs": len(matches),
        "failed_runs": matches.count(Match.SAME),
        "seconds": round(one.remade.seconds, 2),
        "verdict": one.verdict.value,
        "command": recorded.command or None,
    }


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the Judgements of one Claim."""
    order = list(Verdict)
    return max(verdicts, key=order.index)
