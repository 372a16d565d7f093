"""From trace files, and what the counter left, to an Explanation; one pass, whatever the length."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from torchsleuth.explain.compiles import Collector
from torchsleuth.explain.explanation import Explanation, explain_compiles
from torchsleuth.explain.graph_folders import GraphFolders
from torchsleuth.explain.hits import add_hits
from torchsleuth.explain.records import Reading, read
from torchsleuth.explain.times import Clock, Perfetto


def gather(
    traces: Iterable[Path], session: Path | None = None, out: Path | None = None, notes: Iterable[str] = ()
) -> Explanation:
    """Reads `traces`; with `out`, writes the graphs' folders and `trace.json` (for Perfetto) there on the way."""
    reading, clock = Reading(), Clock()
    folders = GraphFolders(out / "graphs") if out is not None else None
    collector = Collector(reading, folders.keep if folders is not None else None)
    with contextlib.ExitStack() as stack:
        perfetto = None
        if out is not None:
            perfetto = Perfetto(stack.enter_context((out / "trace.json").open("w", encoding="utf-8")))
            stack.callback(perfetto.close)
        for path in traces:
            for record in read(path, reading):
                compile = collector.latest(record)
                event = clock.take(record, compile.key if compile else "", compile.function if compile else "")
                if event is None:
                    collector.one(record)
                elif perfetto is not None:
                    perfetto.take(record, event)
    if session is not None:
        add_hits(collector.compiles, session, folders.keep if folders is not None else None)
    said = list(notes)
    if reading.broken_lines:
        said.append(f"{reading.broken_lines} line(s) of the trace could not be read and were left out")
    if folders is not None and folders.left_out:
        said.append(f"{folders.left_out} file(s) of graphs were left out: together they are too large")
    return explain_compiles(
        collector.compiles, clock, collector.torch, said, folders.known if folders is not None else lambda _: None
    )
