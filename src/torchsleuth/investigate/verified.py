"""Put a verification on record, and say what it shows."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.failure import Failure
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim
from torchsleuth.judge.judgement import Candidate, Engine, Judgement, JudgementLog
from torchsleuth.judge.match import Match
from torchsleuth.judge.verify import Verification

OFF = "compilation off"
_DATA = "repro_data*"


def record(log: JudgementLog, script: Path, source: str, failure: Failure, proof: Verification) -> tuple[Claim, ...]:
    """Record the runs of a verified script in fresh processes; return the Claims that they back.

    `source` is the script without its docstring, which may be rewritten later; its data stands beside `script`.
    """
    if not proof.verified:
        return ()
    key = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
    phase = failure.phase.value
    ran = Candidate(key, source, phase=phase)
    seconds = proof.seconds
    fails = log.note(
        ran, Match.SAME, Engine.FRESH, runs=proof.runs, failed=proof.failed_runs, seconds=seconds, reason=proof.reason
    )
    backing = [fails]
    _keep(log, ran, script)
    if proof.eager is Match.PASSED:
        off = Candidate(key, source, (OFF,), compiled=False, phase=phase)
        backing.append(log.note(off, Match.PASSED, Engine.FRESH, runs=proof.runs if proof.flaky else 1))
    return tuple(_claims(source, backing))


def how_off(source: str) -> str:
    """Say how a script is run uncompiled: with fullgraph=True, TORCH_COMPILE_DISABLE=1 raises an error itself."""
    return 'torch.compiler.set_stance("force_eager")' if "fullgraph" in source else "TORCH_COMPILE_DISABLE=1"


def _claims(source: str, backing: list[Judgement]) -> Iterator[Claim]:
    fails, *off = backing
    text = f"Failed in the same way in {fails.failed_runs} of {fails.runs} fresh processes without torchsleuth."
    yield claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", text, fails)
    if off:
        yield claim(ClaimKind.PASSES, Topic.REPRO, OFF, f"Passes with {how_off(source)}.", *off)


def _keep(log: JudgementLog, candidate: Candidate, script: Path) -> None:
    place = log.keep(candidate)
    if place is None:
        return
    for data in script.parent.glob(_DATA):
        target = place / data.name
        if target.exists():
            continue
        if data.is_dir():
            shutil.copytree(data, target)
        else:
            with files.replacing(target) as temporary:
                shutil.copy(data, temporary)
