"""An output folder whose claims rest on scripts that say themselves how they end: no torch is needed to run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outputs import FAILURE, a_finding, a_result, an_output_folder

from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim
from torchsleuth.judge.judgement import Candidate, Engine, Judgement, JudgementLog
from torchsleuth.judge.match import Match
from torchsleuth.judge.remake import Conditions, Remade, Request
from torchsleuth.locate.ladder import Rung
from torchsleuth.write.findings import Culprit

FAILS = "# same\n"
PASSES = "# passed\n"
WORKAROUND = "torch._inductor.config.pattern_matcher = False"
CLAIMS = {
    "fails": "Failed in the same way in 3 of 3 fresh processes without torchsleuth.",
    "off": "Passes with TORCH_COMPILE_DISABLE=1.",
    "eager": 'Passes with backend="eager".',
    "own": 'Fails with backend="inductor".',
    "culprit": "The operator to blame is torch.relu: the only operator of the repro.",
    "needed": "Passes without y.",
    "size": "Fails with size 5 instead of 2, too.",
    "helps": f"Passes with the workaround: {WORKAROUND}",
}


def an_audited_folder(out: Path) -> Path:
    """A run with eight claims on six judgements."""
    out.mkdir(parents=True)
    log = JudgementLog(out)
    claims = list(_claims(log))
    log.note(Candidate("d" * 32, "# not claimed"), Match.PASSED, Engine.WORKER)
    finding = replace(
        a_finding(out, source=f'"""What fails."""\n{FAILS}'),
        claims=tuple(claims),
        culprit=Culprit("torch.relu"),
        rungs=(Rung("eager", Match.PASSED, "passed"), Rung("inductor", Match.SAME, "fails")),
        workaround=WORKAROUND,
    )
    return an_output_folder(out, result=a_result(finding), source=f'"""What fails."""\n{FAILS}')


def _claims(log: JudgementLog) -> Iterator[Claim]:
    fails = log.note(Candidate("a" * 32, FAILS), Match.SAME, Engine.FRESH, runs=3, failed=3)
    off = log.note(Candidate("a" * 32, FAILS, ("compilation off",), compiled=False), Match.PASSED, Engine.FRESH)
    yield claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", CLAIMS["fails"], fails)
    yield claim(ClaimKind.PASSES, Topic.REPRO, "compilation off", CLAIMS["off"], off)
    eager = _judged(log, "eager", f'{PASSES}backend="eager"', Match.PASSED)
    yield claim(ClaimKind.PASSES, Topic.BACKEND, "eager", CLAIMS["eager"], eager)
    yield claim(ClaimKind.FAILS, Topic.BACKEND, "inductor", CLAIMS["own"], fails)
    yield claim(ClaimKind.CULPRIT, Topic.REPRO, "torch.relu", CLAIMS["culprit"], fails)
    needed = _judged(log, "needed", f"{PASSES}# without y", Match.PASSED)
    yield claim(ClaimKind.NEEDED, Topic.PART, "y", CLAIMS["needed"], needed)
    size = _judged(log, "size", f"{FAILS}# size 5", Match.SAME)
    yield claim(ClaimKind.FAILS, Topic.VARIATION, "size 5 instead of 2", CLAIMS["size"], size)
    helps = _judged(log, "helps", f"{PASSES}# {WORKAROUND}", Match.PASSED)
    yield claim(ClaimKind.HELPS, Topic.WORKAROUND, WORKAROUND, CLAIMS["helps"], helps)


def _judged(log: JudgementLog, key: str, source: str, match: Match) -> Judgement:
    return log.note(Candidate(key, source), match, Engine.WORKER, failed=int(match is Match.SAME))


@dataclass
class ToyRunner:
    """Reads the end of a run off the script's first comment; with compilation off, every script passes."""

    made: list[tuple[str, str]] = field(default_factory=list)  # judgement, script
    matches: dict[str, Remade] = field(default_factory=dict)  # answers that a test gives, by judgement

    def __call__(self, request: Request, conditions: Conditions) -> Remade:
        one = request.judgement
        self.made.append((one.id, request.script.relative_to(request.folder).as_posix()))
        assert request.target.failure.fingerprint == FAILURE.fingerprint
        if one.id in self.matches:
            return self.matches[one.id]
        text = request.script.read_text()
        found = Match.PASSED if not one.compiled else next(m for m in Match if f"# {m.value}" in text)
        return Remade((found,) * one.runs, "" if found is one.match else f"it says {found.value}")


def edit_result(out: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the only failure of a result.json."""
    path = out / "result.json"
    data = json.loads(path.read_text())
    change(data["failures"][0])
    path.write_text(json.dumps(data))


def edit_judgement(out: Path, name: str, **changes: object) -> None:
    path = out / "judgements.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["id"] == name:
            row.update(changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
