"""Findings made by hand, for the pages that are written from them."""

from __future__ import annotations

from pathlib import Path

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Graph, Source
from torchsleuth.case.model import Case, Level
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.write.findings import Culprit, Finding, Repro
from torchsleuth.write.result import Result, RunVerdict

VERSIONS = {"torch": "2.13.0+cpu", "python": "3.11.7", "platform": "Linux"}
FAILURE = Failure(
    Kind.COMPILE_ERROR,
    Phase.COMPILE_FORWARD,
    Fingerprint("RuntimeError", "no kernel for N", ("_inductor/graph.py:run_node",)),
    "Traceback (most recent call last):\n  ...\nRuntimeError: no kernel for 3\n",
    "RuntimeError: no kernel for 3",
)
RUNGS = (
    Rung("eager", Match.PASSED, "passed"),
    Rung("aot_eager", Match.UNKNOWN, "unknown: cancelled"),
    Rung("inductor", Match.SAME, "RuntimeError: a | b\nmore"),
)
SCRIPT = "import torch\n\ntorch.compile(torch.relu)(torch.ones(3))\n"


FAILED = "Failed in the same way in 3 of 3 fresh processes without torchsleuth."
CLAIMS = (
    Claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", FAILED, ("j1",)),
    Claim(ClaimKind.PASSES, Topic.REPRO, "compilation off", "Passes with TORCH_COMPILE_DISABLE=1.", ("j2",)),
    Claim(ClaimKind.PASSES, Topic.BACKEND, "eager", 'Passes with backend="eager".', ("j3",)),
    Claim(ClaimKind.FAILS, Topic.BACKEND, "inductor", 'Fails with backend="inductor".', ("j1",)),
)
NOT_KNOWN = ('whether it passes with backend="aot_eager": it did not come to an end that says something',)


def a_case() -> Case:
    return Case(Level.DYNAMO, Graph(()), (), versions=VERSIONS, failure=FAILURE)


def a_repro(out: Path, *, verified: bool = True, name: str = "repro.py") -> Repro:
    reason = "" if verified else "it ran to its end without failing"
    return Repro(out / name, SCRIPT, "torch.compile", 1, ("torch",), 0, verified, 3, 3 if verified else 1, reason)


def a_finding(out: Path, name: str = "f1", *, repro: Repro | None = None, why_not: str = "") -> Finding:
    source = Source(str(Path.cwd() / "model.py"), 31, "forward", "return torch.relu(x)")
    return Finding(
        name,
        FAILURE,
        Component.INDUCTOR,
        Culprit("aten.relu.default", None, source),
        RUNGS,
        out / "cases" / name,
        repro,
        ops_before=412,
        judged=9,
        seconds=21.345,
        why_not=why_not,
        versions=VERSIONS,
        claims=CLAIMS if repro is not None and repro.verified else (),
        not_known=NOT_KNOWN,
    )


def a_result(
    *findings: Finding,
    verdict: RunVerdict = RunVerdict.FAILURE,
    exit_code: int = 1,
    notes: tuple[str, ...] = (),
    graphs: int = 12,
) -> Result:
    command = ("python", "train.py", "--epochs", "1")
    return Result("0.1.0", "2.13.0+cpu", command, exit_code, verdict, 1, graphs, 0, notes, findings)
