"""result.json, schema 1: a contract with whoever reads it.  What is not known is "unknown" or null, never left out."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchsleuth.case.ir import Source
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, numbered, of
from torchsleuth.locate.inside import Located
from torchsleuth.write import sentences
from torchsleuth.write.findings import Finding, Repro
from torchsleuth.write.own_data import of_script

SCHEMA = 1
_MOST_DIFFERENCE = 200  # lines
_MOST_DIVERGING = 40  # operators, from the first that is wrong


class RunVerdict(str, Enum):
    OK = "ok"
    FAILURE = "failure"
    NOT_REPRODUCED = "not-reproduced"
    PROGRAM_ERROR = "program-error"
    NOT_WATCHED = "not-watched"

    @property
    def exit_status(self) -> int:
        return {"ok": 0, "failure": 1, "not-watched": 2, "not-reproduced": 3, "program-error": 4}[self.value]


@dataclass(frozen=True)
class Result:
    version: str
    torch: str
    command: tuple[str, ...]
    exit_code: int
    verdict: RunVerdict
    processes: int
    graphs: int
    numbers_checked: int
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


def to_json(result: Result, out: Path) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "torchsleuth": result.version,
        "torch": result.torch,
        "command": list(result.command),
        "exit_code": result.exit_code,
        "verdict": result.verdict.value,
        "watched": {
            "processes": result.processes,
            "graphs": result.graphs,
            "numbers_checked": result.numbers_checked,
        },
        "notes": list(result.notes),
        "failures": [_finding(f, out) for f in result.findings],
        "report": "report.html",
    }


def _finding(finding: Finding, out: Path) -> dict[str, Any]:
    repro, culprit = finding.repro, finding.culprit
    return {
        "id": finding.id,
        "kind": finding.failure.kind.value,
        "component": finding.component.value,
        "fingerprint": finding.failure.fingerprint.line,
        "phase": finding.failure.phase.value,
        "culprit": {
            "op": culprit.op,
            "pass": culprit.compiler_pass,
            "source": show_source(culprit.source),
            "module": (culprit.source.module if culprit.source else "") or None,
        },
        "inside": _inside(finding),
        "workaround": finding.workaround,
        "claims": [_claim(one) for one in numbered(finding.claims)],
        "not_known": list(dict.fromkeys(finding.not_known)),
        "needed": list(sentences.needed(finding.claims)),
        "varies": list(sentences.varies(finding.claims)),
        "divergence": [{"op": o, "error": e, "eager_error": g} for o, e, g in finding.divergence[:_MOST_DIVERGING]],
        "nearest_passing": (finding.neighbour or None) if of(finding.claims, Topic.NEIGHBOUR) else None,
        "ladder": [{"backend": r.backend, "fails": _fails(finding, r.backend)} for r in finding.rungs],
        "ablation": [
            {"without": one.about, "passes": one.kind is ClaimKind.NEEDED} for one in of(finding.claims, Topic.SETTING)
        ],
        "lines": [show_source(line) for line in finding.lines],
        "why_not": finding.why_not or None,
        "case": _relative(finding.case, out),
        "repro": None
        if repro is None
        else {
            "path": _relative(repro.path, out),
            "verified": repro.verified,
            "failed_runs": repro.failed_runs,
            "runs": repro.runs,
            "form": repro.form,
            "ops": repro.ops,
            "lines": repro.lines,
            "imports": list(repro.imports),
            **_own_data(repro),
        },
        "reduction": {
            "ops_before": finding.ops_before,
            "ops_after": repro.ops if repro else finding.ops_before,
            "judged": finding.judged,
            "judged_to_smallest": finding.judged if finding.judged_to_smallest is None else finding.judged_to_smallest,
            "seconds": round(finding.seconds, 2),
        },
    }


def _own_data(repro: Repro) -> dict[str, int]:
    """What of the user's data and source the repro carries, in its data file and in the script itself."""
    own = of_script(repro.source, repro.source_lines)
    return {
        "data_bytes": repro.data_bytes + own.nbytes,
        "literal_numbers": own.numbers,
        "source_lines": own.source_lines,
    }


def _inside(finding: Finding) -> dict[str, Any] | None:
    found = finding.inside
    if found is None:
        return None
    return {
        "stage": found.blamed.stage if found.blamed else None,
        "name": found.blamed.name if found.blamed else None,
        "number": found.number,
        "applications": found.of,
        "passes_without_it": found.alone,
        "said": list(sentences.inside(finding.claims)),
        "diff": difference(found),
        "judged": finding.judged_inside,
    }


def _fails(finding: Finding, backend: str) -> bool | None:
    kind = sentences.on_backend(finding.claims, backend)
    return None if kind is None else kind is ClaimKind.FAILS


def _claim(one: Claim) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.kind.value,
        "topic": one.topic.value,
        "about": one.about,
        "text": one.text,
        "judgements": list(one.judgements),
    }


def difference(found: Located) -> str | None:
    """What a pass did to its graph, as a diff."""
    if found.blamed is None or not found.blamed.before or found.blamed.before == found.blamed.after:
        return None
    sides = found.blamed.before.splitlines(), found.blamed.after.splitlines()
    return "\n".join(list(difflib.unified_diff(*sides, "before", "after", lineterm="", n=2))[:_MOST_DIFFERENCE])


def _relative(path: Path | None, out: Path) -> str | None:
    return None if path is None else os.path.relpath(path, out)


def show_source(source: Source | None, base: Path | None = None) -> str | None:
    """file:line, relative to the working folder where it can be."""
    if source is None or not source.file:
        return None
    here = base or Path.cwd()
    try:
        name = str(Path(source.file).resolve().relative_to(here.resolve()))
    except ValueError:
        name = source.file
    return f"{name}:{source.line}"
