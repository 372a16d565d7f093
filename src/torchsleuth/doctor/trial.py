"""A judgement from end to end: one operator that compiles, and one planted failure that must be seen."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from torchsleuth.doctor.checks import Check, State
from torchsleuth.doctor.interpreter import Interpreter
from torchsleuth.errors import JudgeBroken
from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial

_DEADLINE = 180.0
_GOOD = """
import torch

def f(x):
    return torch.relu(x)

torch.compile(f)(torch.ones(4))
"""
_BAD = """
import torch

def planted(gm, inputs):
    raise RuntimeError("planted by torchsleuth doctor")

def f(x):
    return torch.relu(x)

torch.compile(f, backend=planted)(torch.ones(4))
"""


def judge_one_operator(python: Interpreter, environment: Mapping[str, str]) -> Check:
    with tempfile.TemporaryDirectory(prefix="torchsleuth-doctor-") as name:
        folder = Path(name)
        for part in ("scratch", "good", "bad"):
            (folder / part).mkdir()
        try:
            with open_judge(
                {"cpu"},
                python=python.path,
                environment=judge_environment(environment),
                scratch=folder / "scratch",
                jobs=1,
            ) as judge:
                good = judge.judge(Trial(_GOOD, folder / "good", deadline=_DEADLINE))
                bad = judge.judge(Trial(_BAD, folder / "bad", deadline=_DEADLINE))
        except JudgeBroken as error:
            return Check(State.PROBLEM, "judging", str(error))
    return _read(good, bad)


def _read(good: Outcome, bad: Outcome) -> Check:
    if good.verdict is not Verdict.PASSED:
        said = good.reason or good.output.strip()[-300:] or good.verdict.value
        return Check(
            State.PROBLEM, "judging", f"torch.compile(torch.relu) does not work alone: {said}",
            "Mend what it says: torch.compile itself is broken here.",
        )  # fmt: skip
    if bad.verdict is not Verdict.FAILED or "planted by" not in bad.reason:
        return Check(
            State.PROBLEM, "judging", f"a planted failure was judged {bad.verdict.value} {bad.reason}".strip(),
            "Please report it with this line.",
        )  # fmt: skip
    return Check(State.OK, "judging", f"one operator compiled in {good.seconds:.1f} s, and a planted failure was seen")
