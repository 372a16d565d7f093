"""issue.md: what a maintainer asks for, in that order."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from findings_by_hand import FAILURE, SCRIPT, a_finding, a_repro

from torchsleuth.case.failure import Phase, wrong_numbers
from torchsleuth.case.ir import Source
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.applied import Applied
from torchsleuth.locate.inside import Located
from torchsleuth.locate.ladder import Component
from torchsleuth.write import issue
from torchsleuth.write.findings import Culprit


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ .*$", text, re.M)


def test_the_sections_of_a_verified_failure(tmp_path: Path) -> None:
    text = issue.write(a_finding(tmp_path, repro=a_repro(tmp_path)))
    assert headings(text) == [
        "# RuntimeError: no kernel for 3", "## Repro", "## Backends", "## Not known", "## Error", "## Versions",
    ]  # fmt: skip
    assert "- kind: compile-error, compile-forward\n- component: inductor\n- operator: `aten.relu.default`\n" in text
    assert "- source: `model.py:31`: `return torch.relu(x)`\n- labels: module: inductor, oncall: cpu inductor\n" in text
    assert (
        "Failed in the same way in 3 of 3 fresh processes without torchsleuth. Passes with TORCH_COMPILE_DISABLE=1."
        in text
    )
    assert f"```python\n{SCRIPT.rstrip()}\n```" in text
    assert "- torch: 2.13.0+cpu\n- python: 3.11.7\n" in text


def test_the_ablation_is_a_table_whatever_was_said(tmp_path: Path) -> None:
    text = issue.write(a_finding(tmp_path, repro=a_repro(tmp_path)))
    assert "| eager | passes |  |\n| aot_eager | not known | unknown: cancelled |\n" in text
    assert "| inductor | fails | RuntimeError: a \\| b more |\n" in text


def test_what_was_not_verified_is_not_claimed(tmp_path: Path) -> None:
    text = issue.write(a_finding(tmp_path, repro=a_repro(tmp_path, verified=False)))
    assert "Not verified: it ran to its end without failing" in text
    assert "fresh processes" not in text


def test_without_a_repro_it_says_why(tmp_path: Path) -> None:
    text = issue.write(a_finding(tmp_path, why_not="it does not fail alone"))
    assert "No script reproduces it alone: it does not fail alone" in text
    assert "```python" not in text


@pytest.mark.parametrize("component", list(Component))
def test_every_component_can_be_written(component: Component, tmp_path: Path) -> None:
    text = issue.write(replace(a_finding(tmp_path), component=component))
    assert f"- component: {component.value}" in text
    assert ("- label:" in text) == (component not in (Component.BACKEND, Component.USER, Component.UNKNOWN))


def test_what_was_swallowed_or_not_kept_is_said(tmp_path: Path) -> None:
    text = issue.write(replace(a_finding(tmp_path), swallowed=True, unknown=("torch._inductor.config.x = Foo",)))
    assert "`suppress_errors` is set" in text
    assert "- not kept: torch._inductor.config.x = Foo" in text


def test_a_long_error_is_cut_at_its_beginning(tmp_path: Path) -> None:
    long = replace(FAILURE, text="x" * 50_000 + "\nRuntimeError: the end")
    text = issue.write(replace(a_finding(tmp_path), failure=long))
    assert "RuntimeError: the end" in text
    assert len(text) < 10_000


def test_workaround_first_then_the_repro_then_what_is_known_of_it(tmp_path: Path) -> None:
    finding = a_finding(tmp_path, repro=a_repro(tmp_path))
    more = (
        Claim(ClaimKind.NEEDED, Topic.PART, "torch.relu", "Passes without torch.relu.", ("j4",)),
        Claim(ClaimKind.NEEDED, Topic.PART, "requires_grad of x", "Passes without requires_grad of x.", ("j5",)),
        Claim(ClaimKind.FAILS, Topic.VARIATION, "float64", "Fails with float64, too.", ("j6",)),
        Claim(ClaimKind.PASSES, Topic.NEIGHBOUR, "torch.relu", "The nearest differs in one.", ("j4",)),
    )
    finding = replace(
        finding,
        workaround="torch._inductor.config.x = 1",
        claims=(*finding.claims, *more),
        neighbour="-y = torch.relu(x)\n+y = torch.sin(x)",
    )
    text = issue.write(finding)
    order = [
        "## Workaround", "torch._inductor.config.x = 1", "## Repro", "import torch",
        "All of the following are needed to trigger it:", "- `torch.relu`", "- `requires_grad of x`",
        "Fails with float64, too.", "```diff\n-y = torch.relu(x)\n+y = torch.sin(x)\n```", "## Backends",
    ]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_labels_go_by_what_the_script_needs(tmp_path: Path) -> None:
    repro = a_repro(tmp_path)
    on_cuda = replace(repro, source='x = torch.ones(2, device="cuda")\ntorch._dynamo.maybe_mark_dynamic(x, 0)\n')
    finding = replace(a_finding(tmp_path, repro=on_cuda), component=Component.INDUCTOR)
    assert issue.labels_of(finding) == ["module: inductor", "module: dynamic shapes"]
    assert issue.labels_of(replace(finding, component=Component.DYNAMO)) == ["module: dynamo", "module: dynamic shapes"]


def test_what_was_found_inside_the_compiler_is_shown_at_work(tmp_path: Path) -> None:
    blamed = Applied("post_grad_passes", "remove_noop_ops", 0, "a\nb = copy(a)\nreturn b", "a\nreturn a")
    said = Claim(ClaimKind.CULPRIT, Topic.INSIDE, "pass", "Passes when only that step is skipped.", ("j4",))
    without = Claim(ClaimKind.NEEDED, Topic.SETTING, "autocast", "Passes without autocast.", ("j5",))
    found = Located(blamed, 4, 22, True, claims=(said,))
    culprit = Culprit("aten.copy.default", found.name, Source("model.py", 3, module="encoder.layers[3]"))
    finding = replace(a_finding(tmp_path), inside=found, culprit=culprit, claims=(said, without))
    text = issue.write(finding)
    assert "- inside: post-grad pass remove_noop_ops\n- module: `encoder.layers[3]`" in text
    assert "## Inside the compiler\n\n- Passes when only that step is skipped.\n" in text
    assert "-b = copy(a)\n-return b\n+return a" in text
    assert "- Passes without autocast." in text


def test_the_title_is_one_line(tmp_path: Path) -> None:
    failure = wrong_numbers("values", Phase.RUN_FORWARD, "", "AssertionError: not close!\n\nMismatched: 3 / 3")
    lines = issue.write(replace(a_finding(tmp_path), failure=failure)).splitlines()
    assert lines[:2] == ["# AssertionError: not close!", ""]
    assert lines[2].startswith("- kind")


def test_variables_are_no_python(tmp_path: Path) -> None:
    text = issue.write(replace(a_finding(tmp_path), workaround="export TORCHINDUCTOR_FX_GRAPH_CACHE=0"))
    assert "The program passes with this:\n\n```sh\nexport TORCHINDUCTOR_FX_GRAPH_CACHE=0\n```" in text


def test_what_is_to_be_removed_is_no_python(tmp_path: Path) -> None:
    text = issue.write(replace(a_finding(tmp_path), workaround="remove `torch._inductor.config.freezing = True`"))
    assert "passes with this change: remove `torch._inductor.config.freezing = True`\n" in text
    assert "```python" not in text


def test_a_source_without_its_text_has_no_empty_code(tmp_path: Path) -> None:
    finding = a_finding(tmp_path)
    text = issue.write(replace(finding, culprit=replace(finding.culprit, source=Source("model.py", 31))))
    assert "- source: `model.py:31`\n" in text


def test_an_error_tells_neither_homes_nor_commands_of_a_thousand_words(tmp_path: Path) -> None:
    said = (
        'File "/home/ann/envs/x/lib/python3.11/site-packages/torch/_inductor/graph.py", line 7, in run\n'
        f"g++ {'-I/some/where ' * 300}\nRuntimeError: the end"
    )
    text = issue.write(replace(a_finding(tmp_path), failure=replace(FAILURE, text=said)))
    assert 'File "torch/_inductor/graph.py", line 7, in run' in text
    assert "/home/ann" not in text
    assert max(map(len, text.splitlines())) < 400
    assert "RuntimeError: the end" in text
