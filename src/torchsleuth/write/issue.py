"""issue.md: a report in the shape that maintainers ask for."""

from __future__ import annotations

from torchsleuth.locate.ladder import Component
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
    "unknown": "",
}


def write(finding: Finding) -> str:
    title = headline(finding.failure).strip().partition("\n")[0]
    parts = [f"# {title}", "", *_summary(finding), "", *_workaround(finding), "## Repro", ""]
    if finding.repro is None:
        parts += [f"No script reproduces it alone: {finding.why_not}", ""]
    else:
        state = (
            f"Verified: it failed in the same way in {finding.repro.failed_runs} of {finding.repro.runs} fresh "
            "processes, and passes with `TORCH_COMPILE_DISABLE=1`."
            if finding.repro.verified
            else f"Not verified: {finding.repro.reason}"
        )
        parts += [state, "", "```python", finding.repro.source.rstrip(), "```", ""]
    parts += _facts(finding)
    parts += _inside(finding)
    if finding.rungs:
        parts += ["## Ablation", "", "| backend | fails alike | said |", "|---|---|---|"]
        parts += [f"| {r.backend} | {_yes(r.fails)} | {_cell(r.said)} |" for r in finding.rungs]
        parts += [f"| without {_cell(row.without)} | {_yes(not row.passes)} | |" for row in finding.ablation]
        parts.append("")
    parts += [
        "## Error",
        "",
        "```",
        error_text(finding.failure.text) or finding.failure.fingerprint.line,
        "```",
        "",
    ]
    parts += ["## Versions", "", *(f"- {name}: {value}" for name, value in finding.versions.items()), ""]
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
        rows.append(f"- source: `{show_source(finding.culprit.source)}`: `{finding.culprit.source.code}`")
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
    found = finding.inside
    if found is None:
        return []
    parts = ["## Inside the compiler", "", *(f"- {said}" for said in found.said), ""]
    changed = difference(found)
    if changed:
        parts += [f"What the {found.name} does:", "", "```diff", changed, "```", ""]
    return parts


def _workaround(finding: Finding) -> list[str]:
    if not finding.workaround:
        return []
    shell = finding.workaround.startswith("export ")  # set around the program, which is what was seen to pass then
    said = f"With this the same {'program' if shell else 'graph'} was seen to run:"
    return ["## Workaround", "", said, "", f"```{'sh' if shell else 'python'}", finding.workaround, "```", ""]


def _facts(finding: Finding) -> list[str]:
    parts: list[str] = []
    if finding.needed:
        parts += ["All of the following are needed to trigger it:", "", *(f"- `{what}`" for what in finding.needed), ""]
    if finding.varies:
        parts += [" ".join(finding.varies), ""]
    if finding.neighbour:
        parts += [
            "The nearest script that passes (`-` fails, `+` passes):",
            "",
            "```diff",
            finding.neighbour,
            "```",
            "",
        ]
    return parts


def _yes(fails: bool | None) -> str:
    return {True: "yes", False: "no", None: "not judged"}[fails]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]
