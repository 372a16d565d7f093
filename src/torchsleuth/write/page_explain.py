"""report.html of `torchsleuth explain`, from explain.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchsleuth.write.explain_words import count, how_often, no_break, no_recompilation, times, what_is_lost
from torchsleuth.write.explained import headline
from torchsleuth.write.markup import Content, Markup, code_lines, copyable, page, render, table, tag, tiles, words
from torchsleuth.write.page_explain_functions import functions
from torchsleuth.write.page_explain_sections import other_sections, ranks
from torchsleuth.write.pictures import bars, icicle

_FILES = {
    "graph.py": "graph", "runnable.py": "runnable", "forward.py": "forward", "backward.py": "backward",
    "joint.py": "joint", "transformed.py": "transformed", "ir_before_fusion.txt": "IR before fusion",
    "ir_after_fusion.txt": "IR after fusion", "output_code.py": "generated code", "guards.txt": "guards",
    "generated.py": "what runs",
    "kernels.txt": "kernels by line",
}  # fmt: skip

_WORDS = (
    ("graph", "A stretch of your function that Dynamo turned into one list of operators, compiled as one."),
    (
        "graph break",
        "A place where Dynamo cannot go on. What comes before is one graph, what comes after another; the line itself "
        "runs in plain Python.",
    ),
    ("hit", "The program came to the break while it ran."),
    ("guard", "A check made before compiled code is used: sizes, dtypes, values that were compiled in."),
    ("recompilation", "A guard failed for all that was compiled before, so the function was compiled once more."),
    ("limit", "After so many compilations of one function (8 unless set) Dynamo leaves new calls uncompiled."),
    ("Dynamo", "Reads your Python and captures graphs."),
    ("AOTAutograd", "Traces the backward and makes both graphs of plain operators."),
    ("passes", "Rewrites of a graph that make it faster."),
    ("lowering", "Turns operators into Inductor's loops."),
    ("scheduling", "Orders and fuses the loops."),
    ("code generation", "Writes C++ or Triton code."),
    ("kernel compile", "Runs the C++ or Triton compiler, or loads what it made before."),
    ("caches", "Looks up and stores what was compiled in earlier runs."),
    ("operators", "Calls in the graphs as Dynamo captured them."),
)


def explain_page(data: Mapping[str, Any]) -> str:
    command = " ".join(map(str, data["command"])) or "this process"
    return page(
        "What torch.compile made of it",
        f"{command}  ·  torch {data['torch'] or 'unknown'}",
        (
            ("summary", "Summary", _summary(data)),
            ("breaks", f"Graph breaks ({len(data['breaks'])})", _breaks(data)),
            ("recompiles", f"Recompilations ({len(data['recompiles'])})", _recompiles(data)),
            *other_sections(data),
            ("functions", f"Functions ({len(data['frames'])})", functions(data)),
            *([("ranks", f"Processes ({len(data['ranks'])})", ranks(data))] if data.get("ranks") else ()),
            ("time", "Compile time", _time(data)),
            ("graphs", f"Graphs ({data['graph_count']})", _graphs(data["graphs"])),
            ("words", "Words on this page", words(_WORDS)),
        ),
    )


def explain_fragment(data: Mapping[str, Any]) -> str:
    """The same in short, for a notebook: no styles, no script."""
    rows = [(b["reason"], f"{b['source']} in {b['function']}", how_often(b), b["advice"]) for b in data["breaks"]]
    again = [
        (r["cause"], f"{r['source']} in {r['function']}", times(r["count"]), r["advice"]) for r in data["recompiles"]
    ]
    parts: list[Content] = [tag("p", tag("b", headline(data)))]
    if rows:
        parts.append(table(("graph break", "where", "how often", "what to do"), rows))
    if again:
        parts.append(table(("recompilation", "where", "how often", "what to do"), again))
    return render(parts)


def _summary(data: Mapping[str, Any]) -> Content:
    seconds = sum(f["seconds"] for f in data["frames"])
    again = sum(r["count"] for r in data["recompiles"])
    facts = tiles(
        (
            ("graphs", f"{data['graph_count']:,}"),
            ("operators", f"{data['op_count']:,}"),
            ("graph breaks", f"{len(data['breaks']):,}"),
            ("recompilations", f"{again:,}"),
            ("compile time", f"{seconds:.1f} s"),
            ("functions", f"{len(data['frames']):,}"),
        )
    )
    notes = [tag("p", f"Note: {note}.", class_="soft") for note in data["notes"]]
    failures = [tag("p", f"Failed: {text[:500]}", class_="bad") for text in data["failures"]]
    unknown = [tag("p", f"Not known: {text}.", class_="bad") for text in data.get("not_known", ())]
    return [facts, _verdict(data), failures, unknown, notes]


def _verdict(data: Mapping[str, Any]) -> Markup:
    if not data["frames"]:
        outside = len(data.get("outside", ()))
        told = f"Nothing was compiled with torch.compile; {count(outside, 'graph')} without it."
        return tag("p", told if outside else "No compilation was seen.")
    eager = [f for f in data["frames"] if f["outcome"] == "eager"]
    whole, compiled_whole = no_break(data)
    served, compiled_once = no_recompilation(data)
    if data["breaks"]:
        worst = data["breaks"][0]
        text = f"The costliest graph break is {worst['reason']} at {worst['source']}, {how_often(worst)}."
        if eager:
            text += f" {count(len(eager), 'function')} run{'s' * (len(eager) == 1)} uncompiled."
    elif data["recompiles"]:
        again = any(r["count"] for r in data["recompiles"])
        text = "Functions were compiled more than once." if again else "The recompile limit was reached."
        text += "" if compiled_whole else f" Graph breaks: {whole}"
    elif compiled_whole and compiled_once and all(f["compiles"] == 1 for f in data["frames"]):
        text = "No graph break and no recompilation: every function was compiled once, whole."
    else:
        text = f"Graph breaks: {whole} Recompilations: {served}"
    return tag("p", text)


def _breaks(data: Mapping[str, Any]) -> Content:
    breaks = data["breaks"]
    if not breaks:
        sentence, well = no_break(data)
        return tag("p", sentence, class_="good" if well else "soft")
    return [
        tag(
            "p",
            "The costliest first: how often it is hit, how small the pieces are, whether a whole function is lost.",
            class_="soft",
        ),
        [_break(b) for b in breaks],
    ]


def _break(found: Mapping[str, Any]) -> Markup:
    lost = what_is_lost(found)
    return tag(
        "article",
        tag(
            "header",
            tag("h3", found["reason"]),
            tag("span", how_often(found), class_="badge bad" if lost or found["raised"] else "badge warn"),
            tag("span", f"{found['source']} in {found['function']}", class_="place"),
        ),
        _lines(found),
        tag("p", lost, class_="bad") if lost else None,
        tag("p", tag("b", "What to do: "), found["advice"], class_="do"),
        _example(found.get("example")),
        _more(found["explanation"], found["stack"], found["torch_name"]),
        class_="card",
    )


def _more(explanation: str, stack: Sequence[str], name: str) -> Markup:
    return tag(
        "details",
        tag("summary", "torch's own words, and how the program came here"),
        tag("p", tag("b", name), f": {explanation}" if explanation else ""),
        tag("pre", "\n".join(stack) or "unknown"),
    )


def _lines(found: Mapping[str, Any]) -> Markup | None:
    number = int(found["source"].rpartition(":")[2]) if found["source"].rpartition(":")[2].isdigit() else 0
    return code_lines([(int(n), str(t)) for n, t in found["lines"]], number) if found["lines"] else None


def _recompiles(data: Mapping[str, Any]) -> Content:
    if not data["recompiles"]:
        sentence, well = no_recompilation(data)
        return tag("p", sentence, class_="good" if well else "soft")
    return [_recompile(r) for r in data["recompiles"]]


def _recompile(found: Mapping[str, Any]) -> Markup:
    values = ", ".join(found["values"][:40])
    return tag(
        "article",
        tag(
            "header",
            tag("h3", tag("code", found["cause"])),
            tag("span", f"compiled again {times(found['count'])}" if found["count"] else "limit", class_="badge warn"),
            tag("span", f"{found['source']} in {found['function']}", class_="place"),
        ),
        _lines(found),
        tag("p", tag("b", "Values seen: "), values) if values else None,
        tag("p", f"The limit is reached: {found['function']} runs uncompiled for what does not match.", class_="bad")
        if found["limit_hit"]
        else None,
        tag("p", found["tried"]) if found.get("tried") else None,
        tag("p", tag("b", "torch: "), found["hint"]) if found.get("hint") else None,
        tag("p", tag("b", "What to do: "), found["advice"], class_="do"),
        _example(found.get("example")),
        class_="card",
    )


def _example(made: Mapping[str, Any] | None) -> Content:
    """The small script that was made of it, with --minimize."""
    if made is None:
        return None
    if made["path"] is None:
        return tag("p", f"No small script: {made['why_not']}.", class_="soft")
    return [tag("p", tag("b", "Alone: "), tag("code", made["path"])), copyable(made["text"])]


def _time(data: Mapping[str, Any]) -> Content:
    if not data["steps"]:
        return None
    slowest = sorted(data["frames"], key=lambda f: -f["seconds"])[:10]
    graphs = sorted(data["graphs"], key=lambda g: -g["seconds"])[:10]
    beside = tag(
        "p",
        "Beside this page: ",
        tag("a", "compile_times.csv", href="compile_times.csv"),
        " (a row a function), ",
        tag("a", "trace.json", href="trace.json"),
        " (for ui.perfetto.dev or chrome://tracing).",
        class_="soft",
    )
    how = (
        "Each box is as wide as the time it took; what happened inside stands below. Click a box to widen it, the top "
        "one to go back."
    )
    return [
        bars(data["steps"]),
        tag("p", how, class_="soft"),
        icicle(data["picture"]),
        tag("h3", "The most expensive functions"),
        table(
            ("function", "where", "#seconds", "#Dynamo", "#AOTAutograd", "#Inductor"),
            [(f["function"], tag("span", f["source"], class_="place"), *_seconds(f)) for f in slowest],
        ),
        tag("h3", "The most expensive graphs"),
        table(
            ("graph", "function", "#operators", "#seconds"),
            [(_graph_link(g), g["function"], str(g["ops"]), f"{g['seconds']:.2f}") for g in graphs],
        ),
        beside,
    ]


def _seconds(frame: Mapping[str, Any]) -> list[str]:
    phases = frame["phases"]
    return [f"{n:.2f}" for n in (frame["seconds"], phases["dynamo"], phases["aot"], phases["inductor"])]


def _graph_link(graph: Mapping[str, Any]) -> Content:
    name = f"[{graph['id']}]"
    return (
        tag("a", name, href=f"{graph['folder']}/graph.py") if graph["folder"] and "graph.py" in graph["files"] else name
    )


def _graphs(graphs: Sequence[Mapping[str, Any]]) -> Content:
    if not graphs:
        return None
    rows = [
        (
            tag("code", g["id"]),
            g["function"],
            tag("span", g["source"], class_="place"),
            str(g["ops"]),
            str(g["guards"]),
            "?" if g["calls"] is None else str(g["calls"]),
            f"{g['seconds']:.2f}",
            [[tag("a", _FILES.get(f, f), href=f"{g['folder']}/{f}"), " "] for f in g["files"]] if g["folder"] else "",
        )
        for g in graphs
    ]
    search = tag(
        "input",
        type="search",
        placeholder="filter by function, file, id",
        data_filter="all-graphs",
        aria_label="filter graphs",
    )
    return [
        search,
        table(
            ("id", "function", "where", "#operators", "#guards", "#calls", "#seconds", "files"), rows, id="all-graphs"
        ),
    ]
