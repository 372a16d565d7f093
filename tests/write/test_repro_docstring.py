"""The docstring on top of repro.py: what fails, where, with which versions, and what is needed."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from findings_by_hand import FAILURE, RUNGS, SCRIPT, a_case

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, of_signal, wrong_numbers
from torchsleuth.case.program import Form, Rendering
from torchsleuth.locate.ladder import Component
from torchsleuth.write.repro_text import headline, of_the_program, with_docstring


def written(
    failure: Failure = FAILURE,
    component: Component = Component.INDUCTOR,
    form: Form = Form.COMPILE,
    imports: tuple[str, ...] = ("torch",),
    notes: tuple[str, ...] = (),
) -> str:
    return with_docstring(
        Rendering(SCRIPT, form, imports), replace(a_case(), phase=failure.phase), failure, component, RUNGS, notes
    )


def docstring(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def test_the_whole_of_it() -> None:
    assert written(notes=("Not reduced: 9 operators, as the program had them.",)) == (
        '"""RuntimeError: no kernel for 3\n'
        "compile-error in inductor, while compiling the forward graph.\n"
        "torch 2.13.0+cpu, python 3.11.7.\n"
        'Passes with TORCH_COMPILE_DISABLE=1 and with backend="eager".\n'
        "Not reduced: 9 operators, as the program had them.\n"
        '"""\n' + SCRIPT
    )


def test_a_rung_that_was_not_judged_is_not_said_to_pass() -> None:
    assert "aot_eager" not in written()


def test_an_unknown_component_is_not_named() -> None:
    assert "compile-error, while compiling" in written(component=Component.UNKNOWN)


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (Phase.COMPILE_BACKWARD, "while compiling the backward graph"),
        (Phase.RUN_FORWARD, "when the compiled forward runs"),
        (Phase.RUN_BACKWARD, "when the compiled backward runs"),
    ],
)
def test_every_phase_has_its_words(phase: Phase, words: str) -> None:
    assert words in written(replace(FAILURE, phase=phase))


def test_the_phase_is_the_scripts_own() -> None:
    """The graph of a backward may have become a program by itself."""
    backward = replace(FAILURE, phase=Phase.COMPILE_BACKWARD)
    rendering = Rendering(SCRIPT, Form.COMPILE, ("torch",))
    text = with_docstring(rendering, a_case(), backward, Component.INDUCTOR, RUNGS)
    assert "while compiling the forward graph" in text


@pytest.mark.parametrize(("form", "words"), [(Form.BACKEND, "handed to the backend"), (Form.INNER, "to Inductor")])
def test_a_form_that_is_no_plain_call_says_so(form: Form, words: str) -> None:
    assert words in docstring(written(form=form))
    assert words not in docstring(written())


def test_what_it_needs_besides_torch_is_named() -> None:
    assert "Needs besides torch: mylib, numpy." in docstring(written(imports=("mylib", "numpy", "torch")))
    assert "besides" not in docstring(written())


@pytest.mark.parametrize("summary", ['say """hello"""', "C:\\new\\table", "a" * 400, "naïve \u2014 \u2018quoted\u2019"])
def test_whatever_the_error_says_the_script_stays_valid(summary: str) -> None:
    text = written(replace(FAILURE, summary=summary))
    assert text.endswith(SCRIPT)
    assert max(map(len, text.splitlines())) <= 400
    assert docstring(text)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (of_signal(11, Phase.RUN_FORWARD), "The process dies with SIGSEGV."),
        (of_hang(Phase.COMPILE_FORWARD), "It never ends."),
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
