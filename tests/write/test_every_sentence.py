"""Each sentence about what fails, passes, is needed, helps or is to blame is a Claim's: without Claims it is gone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from findings_by_hand import CLAIMS, SCRIPT, a_finding, a_repro, a_result

from torchsleuth.case.failure import Phase
from torchsleuth.case.program import Form, Rendering
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.applied import Applied
from torchsleuth.locate.inside import Located
from torchsleuth.write import account, issue, terminal
from torchsleuth.write.findings import Culprit, Finding
from torchsleuth.write.page_run import run_page
from torchsleuth.write.repro_text import with_docstring
from torchsleuth.write.result import to_json

MORE = (
    Claim(ClaimKind.NEEDED, Topic.PART, "torch.relu", "Passes without torch.relu.", ("j4",)),
    Claim(ClaimKind.FAILS, Topic.PART, "no_grad", "Fails without no_grad, too.", ("j5",)),
    Claim(ClaimKind.FAILS, Topic.VARIATION, "float64", "Fails with float64, too.", ("j6",)),
    Claim(ClaimKind.PASSES, Topic.VARIATION, "bfloat16", "Passes with bfloat16.", ("j7",)),
    Claim(ClaimKind.PASSES, Topic.NEIGHBOUR, "torch.relu", "The nearest script that passes lacks it.", ("j4",)),
    Claim(ClaimKind.NEEDED, Topic.SETTING, "autocast", "Passes without autocast.", ("j8",)),
    Claim(
        ClaimKind.CULPRIT,
        Topic.INSIDE,
        "lowering of aten.relu.default",
        "Fails in the lowering of aten.relu.default: passes when only that step is skipped.",
        ("j9", "j10"),
    ),
    Claim(ClaimKind.CULPRIT, Topic.REPRO, "torch.relu", "The operator to blame is torch.relu: the only one.", ("j1",)),
    Claim(ClaimKind.HELPS, Topic.WORKAROUND, "a.b = 1", "Passes with the workaround: a.b = 1", ("j11",)),
)
# Sentences of this kind; words of the glossary and of headings apart, which say nothing of this failure.
SAYS = re.compile(
    r"[^.\n<>]*\b(?:fails? (?:with|without|in)|passes|passed|needed|helps|to blame|failed (?:in )?the same)\b[^\n<>]*"
)
VOCABULARY = re.compile(
    r"A script that fails in the same way as your program|It failed in the same way in fresh processes"
    r"|adds to those that pass|A change with which your graph passes|judgement|Not needed|`-` fails|- fails, \+ passes"
    r"|AOTAutograd, then|The operator to blame"
)


@pytest.fixture
def finding(tmp_path: Path) -> Finding:
    (tmp_path / "repro.py").write_text(SCRIPT)
    return replace(
        a_finding(tmp_path, repro=a_repro(tmp_path)),
        claims=(*CLAIMS, *MORE),
        not_known=(),
        neighbour="-y = torch.relu(x)\n+y = x",
        workaround="a.b = 1",
        inside=Located(Applied("lowering", "aten.relu.default"), 3, 9, True),
        culprit=Culprit("torch.relu", "lowering of aten.relu.default"),
    )


def on_terminal(finding: Finding, out: Path) -> str:
    return "\n".join(terminal.lines(account.of_result(a_result(finding), out), out))


def in_issue(finding: Finding, out: Path) -> str:
    return issue.write(finding)


def on_page(finding: Finding, out: Path) -> str:
    return run_page(to_json(a_result(finding), out), out)


def in_docstring(finding: Finding, out: Path) -> str:
    rendering = Rendering(SCRIPT, Form.COMPILE, ("torch",))
    return with_docstring(finding, rendering, Phase.COMPILE_FORWARD, finding.failure, ())


TEXTS = (on_terminal, in_issue, on_page, in_docstring)
Text = Callable[[Finding, Path], str]


def sentences(text: str) -> list[str]:
    return [found.group().strip() for found in SAYS.finditer(text) if not VOCABULARY.search(found.group())]


@pytest.mark.parametrize("text", TEXTS)
def test_the_claims_are_told(text: Text, finding: Finding, tmp_path: Path) -> None:
    assert sentences(text(finding, tmp_path))


@pytest.mark.parametrize("text", TEXTS)
def test_without_claims_no_such_sentence_is_left(text: Text, finding: Finding, tmp_path: Path) -> None:
    """Whatever else the finding holds: rungs, a located step, a difference, the counts of a verification."""
    bare = replace(finding, claims=(), workaround=None, culprit=Culprit())
    assert sentences(text(bare, tmp_path)) == []


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("gone", MORE, ids=lambda claim: f"{claim.kind.value} {claim.about}")
def test_each_sentence_goes_with_its_claim(text: Text, gone: Claim, finding: Finding, tmp_path: Path) -> None:
    kept = tuple(one for one in finding.claims if one is not gone)
    with_it = text(finding, tmp_path)
    without = text(replace(finding, claims=kept), tmp_path)
    others = [one for one in kept if gone.about in one.text]
    if not others:
        assert without.count(gone.text) == 0
        assert with_it.count(gone.about) >= without.count(gone.about)
