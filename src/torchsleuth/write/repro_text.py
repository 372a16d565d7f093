"""repro.py: the judged script with a docstring on top that says what fails, where, and with which versions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from torchsleuth.case.failure import Failure, Kind, Phase
from torchsleuth.case.model import Case
from torchsleuth.case.program import Form, Rendering
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.write.findings import Finding

_PHASES = {
    "compile-forward": "while compiling the forward graph",
    "compile-backward": "while compiling the backward graph",
    "run-forward": "when the compiled forward runs",
    "run-backward": "when the compiled backward runs",
}
_FORMS = {
    Form.BACKEND: "The graph is handed to the backend as Dynamo captured it: compiled again from Python it is another.",
    Form.INNER: "The graph after AOTAutograd is handed to Inductor: the failure shows in no other form.",
}


def with_docstring(
    rendering: Rendering,
    case: Case,
    failure: Failure,
    component: Component,
    rungs: Sequence[Rung],
    notes: Sequence[str] = (),
) -> str:
    paragraphs = [f"{headline(failure)}", _where(failure, case.phase, component), _versions(case), *_passes(rungs)]
    if rendering.form in _FORMS:
        paragraphs.append(_FORMS[rendering.form])
    foreign = [m for m in rendering.imports if m != "torch"]
    if foreign:
        paragraphs.append(f"Needs besides torch: {', '.join(foreign)}.")
    paragraphs += notes
    return docstring(paragraphs) + rendering.source


def docstring(paragraphs: Sequence[str]) -> str:
    safe = (" ".join(p.split()).replace("\\", "/").replace('"""', "'''") for p in paragraphs)
    return '"""' + "\n".join(textwrap.fill(p, 110) for p in safe) + '\n"""\n'


def facts(finding: Finding) -> list[str]:
    """The sentence that maintainers ask for, and what may be otherwise."""
    wanted = f"All of the following are needed to trigger it: {'; '.join(finding.needed)}."
    place = [f"It comes with the {finding.inside.name}."] if finding.inside is not None and finding.inside.name else []
    return [*place, *([wanted] if finding.needed else []), *finding.varies]


def of_the_program(failure: Failure) -> Failure:
    """For a script that was made smaller: the numbers told are not those that it gives itself."""
    if failure.kind is not Kind.ACCURACY or not failure.summary:
        return failure
    return replace(failure, summary=f"In the program: {failure.summary}")


def headline(failure: Failure) -> str:
    mark = failure.fingerprint
    if failure.summary:
        return failure.summary
    if failure.kind is Kind.CRASH:
        return f"The process dies with {mark.error}."
    if failure.kind is Kind.HANG:
        return "It never ends."
    return f"{mark.error}: {mark.message}" if mark.message else mark.error


def _where(failure: Failure, phase: Phase, component: Component) -> str:
    """`phase` is the script's own: a backward's graph may have become a program by itself."""
    place = "" if component is Component.UNKNOWN else f" in {component.value}"
    return f"{failure.kind.value}{place}, {_PHASES[phase.value]}."


def _versions(case: Case) -> str:
    known = case.versions
    return ", ".join(f"{name} {known[name]}" for name in ("torch", "python", "cuda") if name in known) + "."


def _passes(rungs: Sequence[Rung]) -> list[str]:
    passing = [r.backend for r in rungs if r.fails is False]
    names = ", ".join(f'backend="{b}"' for b in passing)
    return [f"Passes with TORCH_COMPILE_DISABLE=1{' and with ' + names if names else ''}."]
