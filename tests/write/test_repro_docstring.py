"""The docstring on top of repro.py: what fails, where, with which versions, and what is needed."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from findings_by_hand import CLAIMS, FAILURE, SCRIPT, a_finding

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, of_signal, wrong_numbers
from torchsleuth.case.program import Form, Rendering
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.locate.ladder import Component
from torchsleuth.write.findings import Culprit, Finding
from torchsleuth.write.repro_text import headline, of_the_program, with_docstring

FINDING = replace(a_finding(Path("out")), claims=CLAIMS, culprit=Culprit("torch.relu"))


def written(
    finding: Finding = FINDING,
    failure: Failure = FAILURE,
    phase: Phase | None = None,
    form: Form = Form.COMPILE,
    imports: tuple[str, ...] = ("torch",),
    notes: tuple[str, ...] = (),
) -> str:
    return with_docstring(finding, Rendering(SCRIPT, form, imports), phase or failure.phase, failure, notes)


def docstring(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def test_the_whole_of_it() -> None:
    more = (
        Claim(ClaimKind.NEEDED, Topic.PART, "torch.relu", "Passes without torch.relu.", ("j4",)),
        Claim(ClaimKind.FAILS, Topic.VARIATION, "float64", "Fails with float64, too.", ("j5",)),
        Claim(ClaimKind.PASSES, Topic.VARIATION, "bfloat16", "Passes with bfloat16.", ("j6",)),
    )
    finding = replace(FINDING, claims=(*CLAIMS, *more))
    assert written(finding, notes=("Not reduced: 9 operators, as the program had them.",)) == (
        '"""torch.compile fails on torch.relu.\n'
        "\n"
        "RuntimeError: no kernel for 3\n"
        "compile-error in inductor, while compiling the forward graph.\n"
        "Not reduced: 9 operators, as the program had them.\n"
        'Fails with backend="inductor". Passes with backend "eager". Passes with TORCH_COMPILE_DISABLE=1.\n'
        "All of the following are needed to trigger it: torch.relu.\n"
        "Not needed: float64.\n"
        "Passes with bfloat16.\n"
        "torch 2.13.0+cpu, Python 3.11.7, failed in the same way in 3 of 3 fresh processes.\n"
        '"""\n' + SCRIPT
    )


def test_what_no_judgement_backs_is_not_said() -> None:
    text = docstring(written(replace(FINDING, claims=())))
    assert "asses with" not in text
    assert "needed" not in text
    assert "3 of 3" not in text


def test_the_torch_that_judged_is_named_and_the_other_beside_it() -> None:
    finding = replace(FINDING, versions={"torch": "2.6.0+cu124"}, judged_with={"torch": "2.13.0+cpu"})
    assert "torch 2.13.0+cpu, failed in" in docstring(written(finding))
    assert docstring(written(finding)).endswith("Recorded with torch 2.6.0+cu124.")


def test_an_unknown_component_is_not_named() -> None:
    assert "compile-error, while compiling" in written(replace(FINDING, component=Component.UNKNOWN))


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (Phase.COMPILE_BACKWARD, "while compiling the backward graph"),
        (Phase.RUN_FORWARD, "when the compiled forward runs"),
        (Phase.RUN_BACKWARD, "when the compiled backward runs"),
    ],
)
def test_every_phase_has_its_words(phase: Phase, words: str) -> None:
    assert words in written(failure=replace(FAILURE, phase=phase))


def test_the_phase_is_the_scripts_own() -> None:
    """The graph of a backward may have become a program by itself."""
    backward = replace(FAILURE, phase=Phase.COMPILE_BACKWARD)
    assert "while compiling the forward graph" in written(failure=backward, phase=Phase.COMPILE_FORWARD)


@pytest.mark.parametrize(("form", "words"), [(Form.BACKEND, "handed to the backend"), (Form.INNER, "to Inductor")])
def test_a_form_that_is_no_plain_call_says_so(form: Form, words: str) -> None:
    assert words in docstring(written(form=form))
    assert words not in docstring(written())


def test_what_it_needs_besides_torch_is_named() -> None:
    assert "Needs, besides torch: mylib, numpy." in docstring(written(imports=("mylib", "numpy", "torch")))
    assert "besides" not in docstring(written())


@pytest.mark.parametrize("summary", ['say """hello"""', "C:\\new\\table", "a" * 400, "naïve \u2014 \u2018quoted\u2019"])
def test_whatever_the_error_says_the_script_stays_valid(summary: str) -> None:
    text = written(failure=replace(FAILURE, summary=summary))
    assert text.endswith(SCRIPT)
    assert max(map(len, text.splitlines())) <= 400
    assert docstring(text)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (of_signal(11, Phase.RUN_FORWARD), "The process dies with SIGSEGV."),
        (of_hang(Phase.COMPILE_FORWARD), "It does not end."),
        (FAILURE, "RuntimeError: no kernel for 3"),
        (replace(FAILURE, summary=""), "RuntimeError: no kernel for N"),
        (Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("KeyError")), "KeyError"),
    ],
)
def test_the_headline(failure: Failure, line: str) -> None:
    assert headline(failure) == line


def test_numbers_of_the_program_are_called_that() -> None:
    wrong = wrong_numbers("values", Phase.RUN_FORWARD, "", "out[0] is wrong: 1 of 1 elements differ")
    assert headline(of_the_program(wrong)) == "In the program: out[0] is wrong: 1 of 1 elements differ"
    dead = of_signal(11, Phase.RUN_FORWARD)
    assert of_the_program(dead) == dead
