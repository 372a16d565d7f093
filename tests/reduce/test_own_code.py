"""Code of the program's own that the compiler runs: blamed only where it alone makes the difference."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from journaled_reduction import FAILURE
from toys import chain

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.model import Case, Code
from torchsleuth.case.program import Form
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.own_code import blame_own_code
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.match import Target
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.locate.ladder import Component
from torchsleuth.reduce.chance import ALWAYS
from torchsleuth.write.findings import Culprit, Finding

PATCH = Code("patch of the compiler", "CppOverrides.tanh", "patched = True")
PASS = Code("config torch._inductor.config.post_grad_custom_post_pass", "MergeScales()", "class MergeScales: ...")
OPERATOR = Code("operator mylib.foo", "torch.ops.mylib.foo", "registered = True")
BLAMED = Claim(ClaimKind.CULPRIT, Topic.REPRO, "torch.relu", "The operator to blame is torch.relu.", ("j1",))
FOUND = Finding("f1", FAILURE, Component.INDUCTOR, Culprit("torch.relu"), claims=(BLAMED,))
FAILS = Outcome(Verdict.FAILED, FAILURE)
PASSES = Outcome(Verdict.PASSED)


class Judge:
    jobs = 2

    def __init__(self, ends: Callable[[str], Outcome]) -> None:
        self.ends = ends

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        return [self.ends(trial.source) for trial in trials]


def looked_at(tmp_path: Path, ends: Callable[[str], Outcome], *codes: Code) -> Finding:
    case: Case = chain(1, {0: "relu"})
    case = replace(case, surroundings=replace(case.surroundings, code=codes))
    judge = Judge(ends)
    bench = Bench(judge, tmp_path, python=sys.executable, environment={}, deadline=30.0, target=Target(FAILURE))  # type: ignore[arg-type]
    asker = Asker(bench, Way(Form.COMPILE, False, tmp_path), ALWAYS, lambda: True)
    return blame_own_code(FOUND, case, asker, lambda _: None)


def test_a_program_without_such_code_is_left_alone(tmp_path: Path) -> None:
    assert looked_at(tmp_path, lambda _: PASSES) == FOUND


@pytest.mark.parametrize(("code", "text"), [(PATCH, "patched"), (PASS, "MergeScales")])
def test_what_it_passes_without_is_to_blame(tmp_path: Path, code: Code, text: str) -> None:
    found = looked_at(tmp_path, lambda source: FAILS if text in source else PASSES, code)
    assert found.component is Component.USER
    assert found.culprit.op == code.name
    assert [c.kind for c in found.claims] == [ClaimKind.NEEDED, ClaimKind.CULPRIT]


def test_where_it_fails_without_torch_is_to_blame(tmp_path: Path) -> None:
    found = looked_at(tmp_path, lambda _: FAILS, PATCH)
    assert (found.component, found.culprit) == (Component.INDUCTOR, FOUND.culprit)
    assert found.claims[-1].text == "Fails without the patch of CppOverrides.tanh, too."


def test_what_was_not_taken_out_with_a_result_blames_nobody(tmp_path: Path) -> None:
    found = looked_at(tmp_path, lambda _: Outcome(Verdict.UNKNOWN), PATCH)
    assert (found.component, found.culprit.op, found.claims) == (Component.UNKNOWN, None, ())
    assert "the patch of CppOverrides.tanh" in found.not_known[-1]


def test_an_operator_whose_fake_kernel_agrees_is_innocent(tmp_path: Path) -> None:
    found = looked_at(tmp_path, lambda source: PASSES if "sleuth_fake" in source else FAILS, OPERATOR)
    assert found.component is Component.INDUCTOR
    assert BLAMED in found.claims


def test_an_operator_whose_fake_kernel_does_not_agree_clears_torch(tmp_path: Path) -> None:
    wrong = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("WrongFakeKernel"), "", "mylib.foo: float32")
    found = looked_at(tmp_path, lambda _: Outcome(Verdict.FAILED, wrong), OPERATOR)
    assert (found.component, found.culprit.op, found.claims) == (Component.UNKNOWN, None, ())
    assert (
        'operator mylib.foo cannot be taken out alone; backend="sleuth_fake" reports: mylib.foo: float32'
        in (found.not_known[-1])
    )
