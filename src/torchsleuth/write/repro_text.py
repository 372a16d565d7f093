"""The docstring of repro.py: what fails, how, with which versions, and what is needed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchsleuth.case.failure import Failure, Kind, Phase
from torchsleuth.case.program import Form, Rendering
from torchsleuth.diagnose.claim import Topic, of
from torchsleuth.locate.ladder import Component
from torchsleuth.write import sentences
from torchsleuth.write.findings import Finding

_PHASES = {
    "compile-forward": "while compiling the forward graph",
    "compile-backward": "while compiling the backward graph",
    "run-forward": "when the compiled forward runs",
    "run-backward": "when the compiled backward runs",
}
_FORMS = {
    Form.BACKEND: "The graph is handed to the backend as Dynamo captured it.",
    Form.INNER: "The graph after AOTAutograd is handed to Inductor.",
}
_WHAT = {
    Kind.COMPILE_ERROR: "torch.compile fails{on}",
    Kind.RUNTIME_ERROR: "Compiled code raises an error{on}",
    Kind.ACCURACY: "torch.compile gives wrong results{on}",
    Kind.CRASH: "torch.compile ends the process{on}",
    Kind.HANG: "torch.compile does not end{on}",
    Kind.OUT_OF_MEMORY: "torch.compile runs out of memory{on}",
    Kind.DYNAMO_ERROR: "torch.compile fails to capture a graph{on}",
}


def with_docstring(finding: Finding, rendering: Rendering, phase: Phase, failure: Failure, notes: Sequence[str]) -> str:
    """Put a docstring on a rendered script; `phase` is the script's own, which may differ from the program's."""
    paragraphs = [title(finding), error(failure), where(failure, phase, finding.component)]
    if rendering.form in _FORMS:
        paragraphs.append(_FORMS[rendering.form])
    paragraphs += [*requirements(rendering.imports), *notes, *sentences.facts(finding.claims)]
    paragraphs.append(versions(finding))
    return docstring(paragraphs) + rendering.source


def requirements(imports: Sequence[str]) -> list[str]:
    foreign = [name for name in imports if name != "torch"]
    return [f"Needs, besides torch: {', '.join(foreign)}."] if foreign else []


def docstring(paragraphs: Sequence[str]) -> str:
    safe = (" ".join(p.split()).replace("\\", "/").replace('"""', "'''") for p in paragraphs if p)
    first, *rest = (textwrap.fill(p, 110) for p in safe)
    return '"""' + first + "\n\n" + "\n".join(rest) + '\n"""\n' if rest else f'"""{first}"""\n'


def title(finding: Finding) -> str:
    """Say what fails, in a few words."""
    on = f" on {finding.culprit.op}" if finding.culprit.op else ""
    return _WHAT[finding.failure.kind].format(on=on) + "."


def error(failure: Failure) -> str:
    """Quote the error; the title says the rest."""
    return "" if failure.kind is Kind.HANG and not failure.summary else headline(failure)


def of_the_program(failure: Failure) -> Failure:
    """For a script that was made smaller: the numbers quoted are not those that it gives itself."""
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
        return "It does not end."
    return f"{mark.error}: {mark.message}" if mark.message else mark.error


def where(failure: Failure, phase: Phase, component: Component) -> str:
    place = "" if component is Component.UNKNOWN else f" in {component.value}"
    return f"{failure.kind.value}{place}, {_PHASES[phase.value]}."


def versions(finding: Finding) -> str:
    """Name what judged the script, how often it failed, and what recorded it where that was another torch."""
    judged = finding.judged_with or finding.versions
    parts = [_named(judged)]
    runs = of(finding.claims, Topic.REPRO)
    parts += [one.text.removesuffix(" without torchsleuth.").lower() for one in runs if one.about == "repro.py"]
    text = ", ".join(p for p in parts if p)
    recorded = _named({k: v for k, v in finding.versions.items() if judged.get(k) not in (None, v)})
    return (f"{text}." if text else "") + (f" Recorded with {recorded}." if recorded else "")


def _named(versions: Mapping[str, str]) -> str:
    words = {"torch": "torch", "python": "Python", "cuda": "CUDA"}
    return ", ".join(f"{word} {versions[name]}" for name, word in words.items() if name in versions)
