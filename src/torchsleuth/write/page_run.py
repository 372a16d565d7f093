"""report.html of `torchsleuth run`, from result.json and the files beside it.

Facts that another part of the tool may or may not have found (a workaround, errors by operator, a passing neighbour)
are shown where they are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.write import own_data
from torchsleuth.write.markup import Content, Markup, copyable, page, table, tag, tiles, words
from torchsleuth.write.pictures import bars, curve, graph
from torchsleuth.write.repro_graph import nodes_of

_VERDICTS = {
    "ok": ("good", "No failure was seen."),
    "failure": ("bad", "A failure was found, and reproduced alone."),
    "not-reproduced": ("warn", "A failure was found. No script reproduces it."),
    "program-error": ("warn", "The program failed, and not because of torch.compile."),
    "not-watched": ("warn", "Nothing was watched."),
}
_LAYERS = {
    "eager": "no compiler at all",
    "aot_eager": "AOTAutograd, then plain operators",
    "aot_eager_decomp_partition": "AOTAutograd with decompositions and the partitioner, then plain operators",
    "inductor": "all of it: Inductor's generated code",
}
_WORDS = (
    ("repro", "A script that fails in the same way as your program, and needs only torch."),
    (
        "verified",
        "It failed in the same way in fresh processes without torchsleuth, and passed with compilation off.",
    ),
    ("operator", "One call in the graph that torch.compile captured from your code."),
    (
        "fingerprint",
        "What makes two failures the same bug: the error's type and message, less names and numbers.",
    ),
    ("component", "The part of the compiler that the first failing backend adds to those that pass."),
    ("ladder", "The failing graph on four backends, each with one layer of the compiler more."),
    (
        "application",
        "One thing that the compiler does to a graph: a pass, a pattern, the lowering of one operator, a fusion.",
    ),
    ("judgement", "One candidate, compiled and run in a process of its own."),
    ("Case", "The failing graph with its inputs and surroundings, as a folder of text that a person can read."),
    ("workaround", "A change with which your graph passes; it was tried."),
)


def run_page(result: Mapping[str, Any], out: Path) -> str:
    failures = result["failures"]
    sections: list[tuple[str, str, Content]] = [("verdict", "Verdict", _verdict(result))]
    for number, failure in enumerate(failures, start=1):
        name = str(failure["id"])
        more = f" {number} of {len(failures)}" if len(failures) > 1 else ""
        repro = _read(out, failure["repro"]["path"]) if failure["repro"] else ""
        sections += [
            (name, f"Failure{more}", _failure(failure)),
            (f"{name}-repro", f"Repro{more}", _repro(failure, repro)),
            (f"{name}-ladder", f"Ladder{more}", _ladder(failure["ladder"])),
            (f"{name}-inside", f"Inside the compiler{more}", _inside(failure.get("inside"))),
            (f"{name}-graph", f"The graph that fails{more}", _graph(failure, repro)),
            (f"{name}-errors", f"Error by operator{more}", _errors(failure.get("divergence"))),
            (f"{name}-reduction", f"Reduction{more}", _reduction(failure, out)),
            (f"{name}-neighbour", f"Nearest program that passes{more}", _neighbour(failure.get("nearest_passing"))),
        ]
    issue = _read(out, "issue.md")
    sections += [
        ("issue", "The issue, ready to paste", _folded(issue) if issue else None),
        ("environment", "Environment", _environment(result)),
        ("words", "Words on this page", words(_WORDS)),
    ]
    command = " ".join(map(str, result["command"]))
    return page("What torchsleuth found", f"{command}  ·  torch {result['torch']}", sections)


def _verdict(result: Mapping[str, Any]) -> Content:
    kind, text = _VERDICTS[result["verdict"]]
    watched = result["watched"]
    facts = tiles(
        (
            ("failures", str(len(result["failures"]))),
            ("graphs watched", f"{watched['graphs']:,}"),
            ("processes", f"{watched['processes']:,}"),
            ("the program's exit code", str(result["exit_code"])),
        )
    )
    notes = [tag("p", f"Note: {note}", class_="soft") for note in result["notes"]]
    return [tag("p", tag("b", text), class_=kind), facts, notes]


def _failure(failure: Mapping[str, Any]) -> Content:
    culprit = failure["culprit"]
    rows: list[tuple[str, Content]] = [
        ("what", f"{failure['kind']}, {failure['phase']}"),
        ("component", failure["component"]),
        ("error", tag("code", failure["fingerprint"])),
    ]
    rows += [
        (name, tag("pre" if "\n" in str(value) else "code", str(value)))
        for name, value in (
            ("operator", culprit["op"]),
            ("inside the compiler", culprit["pass"]),
            ("module", culprit.get("module")),
            ("your line", culprit["source"]),
            ("workaround, tried", failure["workaround"]),
        )
        if value
    ]
    unknown = failure.get("not_known") or ()
    if unknown:
        rows.append(("not known", tag("ul", [tag("li", str(what)) for what in unknown])))
    if failure.get("why_not"):
        rows.append(("why no repro", failure["why_not"]))
    if failure["case"]:
        rows.append(("Case", tag("a", failure["case"], href=f"{failure['case']}/graph.py")))
    return tag("dl", [[tag("dt", name), tag("dd", value)] for name, value in rows])


def _repro(failure: Mapping[str, Any], source: str) -> Content:
    repro = failure["repro"]
    if not repro:
        return None
    said = [str(one["text"]) for one in _claims(failure, "repro") if one["kind"] != "culprit"]
    state = " ".join(said) if repro["verified"] else "Not verified."
    size = f"{repro['ops']} operator{'s' * (repro['ops'] != 1)}, {repro['lines']} lines, form {repro['form']}"
    own = own_data.of_repro(repro, source)
    beside = repro["data_bytes"] - own.nbytes
    file = [f"{beside:,} bytes of your data in {DATA_FILE} beside it"] if beside > 0 else []
    data = "".join(f", {phrase}" for phrase in (*file, *own.phrases)) or ", holds no data and no source of yours"
    needed = failure.get("needed") or ()
    return [
        tag("p", state, class_="good" if repro["verified"] else "warn"),
        tag("p", f"{size}{data}. ", tag("a", repro["path"], href=repro["path"]), class_="soft"),
        copyable(source) if source else None,
        tag("p", "All of these are needed to trigger it:") if needed else None,
        tag("ul", [tag("li", str(each)) for each in needed]) if needed else None,
        [tag("p", str(one["text"])) for one in _claims(failure, "part") if one["kind"] == "fails"],
        [tag("p", str(sentence)) for sentence in failure.get("varies") or ()],
    ]


def _claims(failure: Mapping[str, Any], topic: str) -> list[Mapping[str, Any]]:
    return [one for one in failure.get("claims") or () if one["topic"] == topic]


def _ladder(rungs: Sequence[Mapping[str, Any]]) -> Content:
    if not rungs:
        return None
    said: dict[Any, tuple[str, str]] = {True: ("bad", "fails"), False: ("good", "passes"), None: ("soft", "not known")}
    rows = []
    for rung in rungs:
        kind, text = said[rung["fails"]]
        rows.append((rung["backend"], tag("b", text, class_=kind), _LAYERS.get(rung["backend"], "")))
    return table(("backend", "result", "what runs"), rows)


def _graph(failure: Mapping[str, Any], source: str) -> Content:
    nodes = nodes_of(source)
    if not 1 < len(nodes) <= 60:
        return None
    operator = str(failure["culprit"]["op"] or "").rpartition("torch.")[2].partition(".default")[0]
    return graph(nodes, operator.rpartition(".")[2] or None)


def _errors(divergence: Sequence[Mapping[str, Any]] | None) -> Content:
    if not divergence:
        return None
    return bars({str(d["op"]): float(d["error"]) for d in divergence[:40]}, unit="")


def _reduction(failure: Mapping[str, Any], out: Path) -> Content:
    reduction = failure["reduction"]
    before, after, judged = reduction["ops_before"], reduction["ops_after"], reduction["judged"]
    if not judged or before <= after:
        return None
    known = _history(out / str(failure["case"]) / "journal.jsonl") or [(reduction["judged_to_smallest"], after)]
    points = [(0.0, float(before)), *((float(x), float(y)) for x, y in known)]
    text = f"From {before} operators to {after} in {judged} judgements, {reduction['seconds']:.0f} s."
    return [
        tag("p", text),
        curve([*points, (max(float(judged), points[-1][0]), float(after))], "judgements", "operators"),
    ]


def _history(journal: Path) -> list[tuple[int, int]]:
    """(judgements so far, operators) at each smaller Case that the reduction's journal holds."""
    found: list[tuple[int, int]] = []
    judged = 0
    try:
        lines = journal.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            row = json.loads(line)
            if "smaller" in row:
                found.append((judged, int(row["smaller"])))
            else:
                judged += "verdict" in row
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def _inside(found: Mapping[str, Any] | None) -> Content:
    if not found:
        return None
    number, count = found["number"], found["applications"]
    said = [tag("li", sentence) for sentence in found["said"]]
    place = f"Application {number} of {count} inside the compiler." if number else None
    difference = found.get("diff")
    return [
        tag("p", place, class_="soft") if place else None,
        tag("ul", said),
        [tag("p", "What it does to the graph: - before, + after."), _diff(difference)] if difference else None,
    ]


def _neighbour(difference: str | None) -> Content:
    if not difference:
        return None
    return [tag("p", "The nearest script that passes differs in one thing: - fails, + passes."), _diff(difference)]


def _diff(difference: str) -> Markup:
    kinds = {"-": "out", "+": "in"}
    lines = [tag("span", f"{line}\n", class_=kinds.get(line[:1])) for line in str(difference).splitlines()]
    return tag("pre", lines, class_="diff")


def _environment(result: Mapping[str, Any]) -> Content:
    command = " ".join(map(str, result["command"]))
    rows = (("torch", result["torch"]), ("torchsleuth", result["torchsleuth"]), ("command", command))
    data = tag("a", "result.json", href="result.json")
    return [
        tag("dl", [[tag("dt", name), tag("dd", str(value))] for name, value in rows]),
        tag("p", "Beside this page: ", data, ", the same for scripts.", class_="soft"),
    ]


def _folded(issue: str) -> Markup:
    return tag("details", tag("summary", f"issue.md, {len(issue.splitlines())} lines"), copyable(issue))


def _read(out: Path, name: str) -> str:
    try:
        return (out / name).read_text(encoding="utf-8")
    except OSError:
        return ""
