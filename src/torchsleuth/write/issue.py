"""issue.md: a report in the shape that maintainers ask for."""

from __future__ import annotations

from torchsleuth.diagnose.claim import ClaimKind, Topic, of
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.locate.workarounds import is_code
from torchsleuth.write import sentences
from torchsleuth.write.error_text import error_text
from torchsleuth.write.findings import Finding
from torchsleuth.write.repro_text import headline
from torchsleuth.write.result import difference, show_source

_LABELS = {
    "dynamo": "module: dynamo",
    "aot": "module: pt2-dispatcher",
    "decomposition": "module: decompositions",
    "partitioner": "module: pt2-dispatcher",
    "inductor": "module: inductor",
    "backend": "",
    "user": "",
    "unknown": "",
}


def write(finding: Finding) -> str:
    title = headline(finding.failure).strip().partition("\n")[0]
    parts = [f"# {title}", "", *_summary(finding), "", *_workaround(finding), "## Repro", ""]
    if finding.repro is None:
        parts += [f"No script reproduces it alone: {finding.why_not}", ""]
    else:
        state = sentences.verified(finding) if finding.repro.verified else f"Not verified: {finding.repro.reason}"
        parts += [state, "", "```python", finding.repro.source.rstrip(), "```", ""]
    parts += _facts(finding)
    parts += _inside(finding)
    if finding.rungs:
        parts += ["## Backends", "", "| backend | result | error |", "|---|---|---|"]
        parts += [f"| {r.backend} | {_result(r, finding)} | {_cell(_error(r))} |" for r in finding.rungs]
        parts.append("")
    parts += [f"- {one.text}" for one in of(finding.claims, Topic.SETTING)]
    parts += _not_known(finding)
    parts += [
        "## Error",
        "",
        "```",
        error_text(finding.failure.text) or finding.failure.fingerprint.line,
        "```",
        "",
    ]
    versions = {**finding.versions, **finding.judged_with}
    parts += ["## Versions", "", *(f"- {name}: {value}" for name, value in versions.items()), ""]
    return "\n".join(parts)


def _summary(finding: Finding) -> list[str]:
    rows = [
        f"- kind: {finding.failure.kind.value}, {finding.failure.phase.value}",
        f"- component: {finding.component.value}",
    ]
    if finding.culprit.op:
        rows.append(f"- operator: `{finding.culprit.op}`")
    if finding.culprit.compiler_pass:
        rows.append(f"- inside: {finding.culprit.compiler_pass}")
    if finding.culprit.source and finding.culprit.source.module:
        rows.append(f"- module: `{finding.culprit.source.module}`")
    if finding.culprit.source and finding.culprit.source.file:
        code = f": `{finding.culprit.source.code}`" if finding.culprit.source.code else ""
        rows.append(f"- source: `{show_source(finding.culprit.source)}`{code}")
    labels = labels_of(finding)
    if labels:
        rows.append(f"- label{'s' * (len(labels) > 1)}: {', '.join(labels)}")
    if finding.swallowed:
        rows.append("- the program went on in eager, because `suppress_errors` is set")
    rows += [f"- not kept: {what}" for what in finding.unknown]
    return rows


def labels_of(finding: Finding) -> list[str]:
    """What maintainers would put on it: by component, and what the reduced script still needs."""
    script = finding.repro.source if finding.repro is not None else ""
    found = [_LABELS[finding.component.value]]
    if finding.component is Component.INDUCTOR and script and "cuda" not in script and "xpu" not in script:
        found.append("oncall: cpu inductor")
    if "mark_dynamic(" in script or "dynamic=True" in script:
        found.append("module: dynamic shapes")
    return [label for label in found if label]


def _inside(finding: Finding) -> list[str]:
    found, said = finding.inside, sentences.inside(finding.claims)
    if found is None or not said:
        return []
    parts = ["## Inside the compiler", "", *(f"- {sentence}" for sentence in said), ""]
    changed = difference(found)
    if changed:
        parts += [f"What the {found.name} does:", "", "```diff", changed, "```", ""]
    return parts


def _workaround(finding: Finding) -> list[str]:
    if not finding.workaround:
        return []
    text = finding.workaround
    shell = text.startswith("export ")  # set around the program, which is what was seen to pass then
    if not (shell or is_code(text)):
        return ["## Workaround", "", f"The graph passes with this change: {text}", ""]
    said = f"The {'program' if shell else 'graph'} passes with this:"
    return ["## Workaround", "", said, "", f"```{'sh' if shell else 'python'}", text, "```", ""]


def _facts(finding: Finding) -> list[str]:
    parts: list[str] = []
    needed = sentences.needed(finding.claims)
    if needed:
        parts += ["All of the following are needed to trigger it:", "", *(f"- `{what}`" for what in needed), ""]
    others = [*of(finding.claims, Topic.PART, ClaimKind.FAILS), *of(finding.claims, Topic.VARIATION)]
    if others:
        parts += [" ".join(one.text for one in others), ""]
    nearest = of(finding.claims, Topic.NEIGHBOUR)
    if finding.neighbour and nearest:
        parts += [
            f"{nearest[0].text.removesuffix('.')} (`-` fails, `+` passes):",
            "",
            "```diff",
            finding.neighbour,
            "```",
            "",
        ]
    return parts


def _not_known(finding: Finding) -> list[str]:
    if not finding.not_known:
        return []
    return ["## Not known", "", *(f"- {what}" for what in dict.fromkeys(finding.not_known)), ""]


def _result(rung: Rung, finding: Finding) -> str:
    kind = sentences.on_backend(finding.claims, rung.backend)
    if kind is not None:
        return kind.value
    return "fails in another way" if rung.match is Match.OTHER else "not known"


def _error(rung: Rung) -> str:
    return "" if rung.match is Match.PASSED else rung.said


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]
