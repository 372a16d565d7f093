"""Output folders as `torchsleuth run` leaves them, made by hand from the project's own dataclasses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torchsleuth.case import files, folder
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Source, Value
from torchsleuth.case.model import Case, Level, Storage, Surroundings, Tensor
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.write.findings import Culprit, Finding, Repro
from torchsleuth.write.result import Result, RunVerdict, to_json

MESSAGE = "no such kernel"
FAILING = f"""import torch


def backend(gm, inputs):
    raise RuntimeError("{MESSAGE}")


torch.compile(torch.nn.ReLU(), backend=backend)(torch.ones(4))
"""
FAILURE = Failure(
    Kind.COMPILE_ERROR,
    Phase.COMPILE_FORWARD,
    Fingerprint("RuntimeError", MESSAGE, ("_dynamo/repro/after_dynamo.py:__call__",)),
    "Traceback (most recent call last):\n  ...\nRuntimeError: no such kernel\n",
)
CLAIMS = (
    Claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", "Failed in the same way in 3 of 3 fresh processes.", ("j1",)),
    Claim(ClaimKind.PASSES, Topic.BACKEND, "eager", 'Passes with backend="eager".', ("j2",)),
    Claim(ClaimKind.FAILS, Topic.BACKEND, "mine", 'Fails with backend="mine".', ("j1",)),
)
WEIGHTS = b"\x02\x00\x00\x00\x00\x00\x00\x00{}" + b"weights-of-mine-" * 4


def a_case(source_file: str = "model.py", environment: Mapping[str, str] | None = None) -> Case:
    value = Value("torch.float32", (4,), (1,))
    line = Source(source_file, 31, "forward", "return torch.relu(x)")
    graph = Graph(
        (
            Node("x", Op.PLACEHOLDER, "x", value=value),
            Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=value, source=line),
            Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
        )
    )
    return Case(
        Level.DYNAMO,
        graph,
        (Tensor("torch.float32", (4,), (1,)),),
        storages=(Storage(16, kept=True),),
        surroundings=Surroundings(environment=environment or {}),
        failure=FAILURE,
        versions={"torch": "2.13.0+cpu", "python": "3.11.7"},
    )


def a_finding(out: Path, *, source: str = FAILING, verified: bool = True, failure: Failure = FAILURE) -> Finding:
    repro = Repro(out / "repro.py", source, "torch.compile", 1, ("torch",), 0, verified, 3, 3 if verified else 1, "")
    return Finding(
        "f1",
        failure,
        Component.BACKEND,
        Culprit("aten.relu.default", None, Source("model.py", 31, "forward", "return torch.relu(x)")),
        (Rung("eager", Match.PASSED, "passed"), Rung("mine", Match.SAME, "fails")),
        out / "cases" / "f1",
        repro,
        ops_before=412,
        claims=CLAIMS,
    )


def a_result(*findings: Finding, verdict: RunVerdict = RunVerdict.FAILURE, notes: tuple[str, ...] = ()) -> Result:
    command = ("python", "train.py", "--epochs", "1")
    return Result("0.1.0", "2.13.0+cpu", command, 1, verdict, 1, 12, 0, notes, findings)


def an_output_folder(
    out: Path,
    *,
    result: Result | None = None,
    case: Case | None = None,
    source: str = FAILING,
    age: float = 0.0,
) -> Path:
    """A run that found one failure and verified its repro; `age` in seconds."""
    (out / "logs").mkdir(parents=True)
    (out / "logs" / "trouble.log").write_text("private\n")
    files.write_text(out / "repro.py", source)
    files.write_text(out / "issue.md", f"# RuntimeError: {MESSAGE}\n\n```python\n{source}```\n")
    folder.save(case or a_case(), out / "cases" / "f1")
    (out / "cases" / "f1" / "tensors.safetensors").write_bytes(WEIGHTS)
    files.write_json(out / "result.json", to_json(result or a_result(a_finding(out, source=source)), out))
    if age:
        then = (out / "result.json").stat().st_mtime - age
        for path in (out / "result.json", out):
            os.utime(path, (then, then))
    return out


def died(signal: str = "SIGSEGV") -> Failure:
    return replace(FAILURE, kind=Kind.CRASH, fingerprint=Fingerprint(signal), text="")
