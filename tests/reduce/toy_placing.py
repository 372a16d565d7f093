"""A toy judge that reads scripts, and a toy of what puts scripts in place: a whole reduction without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from journaled_reduction import FAILURE
from toys import chain, targets

from torchsleuth.case.ir import Source, operators
from torchsleuth.case.model import Case
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.investigate.placing import Means, Plan
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.write.findings import Finding, Repro

VERIFIED = (Claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", "Failed.", ("j1",)),)


def with_lines(case: Case) -> Case:
    nodes = tuple(replace(n, source=Source("net.py", 10 + at)) if n.is_call else n
                  for at, n in enumerate(case.graph.nodes))  # fmt: skip
    return replace(case, graph=replace(case.graph, nodes=nodes))


WHOLE = with_lines(chain(40, {20: "relu"}))


class ToyJudge:
    """What calls relu fails, but not on the lower rungs of the ladder."""

    jobs = 2

    def __init__(self, fails: Callable[[str, int], bool]) -> None:
        self._fails = fails
        self.asked: list[str] = []

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        found = []
        for number, trial in enumerate(trials):
            self.asked.append(trial.source)
            rung = "backend=" in trial.source or "aot_eager" in trial.source
            fails = not rung and self._fails(trial.source, len(self.asked))
            found.append(Outcome(Verdict.FAILED, FAILURE) if fails else Outcome(Verdict.PASSED))
            if heard is not None:
                heard(number, found[-1])
        return found


@dataclass
class ToyPlacing:
    """Notes what is verified, and how often."""

    plan: Plan
    good: Callable[[Case], bool] = lambda case: True
    placed: list[tuple[list[str], int]] = field(default_factory=list)
    undecided: bool = False
    said: list[str] = field(default_factory=list)
    means: Means = field(default_factory=lambda: Means(sys.executable, {}, (), 2, 30.0))

    def say(self, text: str) -> None:
        self.said.append(text)

    def text(self, finding: Finding, case: Case, way: Way, *, reduced: bool) -> tuple[None, str]:
        return None, "a script"

    def say_where(self, repro: Repro, finding: Finding, case: Case, way: Way, *, reduced: bool) -> Repro:
        return repro

    def write(self, finding: Finding, case: Case, way: Way, home: Path, bench: Bench, *, first: bool, runs: int,
              reduced: bool) -> Repro:  # fmt: skip
        self.placed.append((targets(case), runs))
        verified = self.good(case) or finding.chance.flaky
        return Repro(
            home / "repro.py", "", way.form.value, operators(case.graph), ("torch",), 0, verified, runs,
            runs if verified else 0, "" if verified else "it ran to its end without failing",
            self.undecided and not verified, VERIFIED if verified else (),
        )  # fmt: skip


def calls_relu(source: str, number: int) -> bool:
    return "torch.relu(" in source
