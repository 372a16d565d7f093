"""From trace files, and what the counter left, to an Explanation; one pass, whatever the length."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from torchsleuth.explain.cache_use import cache_use
from torchsleuth.explain.compiles import Collector
from torchsleuth.explain.explanation import Explanation, explain_compiles
from torchsleuth.explain.graph_folders import GraphFolders
from torchsleuth.explain.hits import add_hits
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.ranks import without_compilations
from torchsleuth.explain.records import Reading, read
from torchsleuth.explain.times import Clock, Perfetto
from torchsleuth.explain.unknowns import cut_at_start, unknowns
from torchsleuth.watch.session import processes


def gather(
    traces: Iterable[Path], session: Path | None = None, out: Path | None = None, notes: Iterable[str] = ()
) -> Explanation:
    """Read `traces`; with `out`, write the graphs' folders and `trace.json` (for Perfetto) there on the way."""
    reading, clock = Reading(), Clock()
    folders = GraphFolders(out / "graphs") if out is not None else None
    collector = Collector(reading, folders.keep if folders is not None else None)
    not_known: list[str] = []
    with contextlib.ExitStack() as stack:
        perfetto = None
        if out is not None:
            perfetto = Perfetto(stack.enter_context((out / "trace.json").open("w", encoding="utf-8")))
            stack.callback(perfetto.close)
        for path in traces:
            known = len(collector.compiles)
            _read_file(path, collector, clock, perfetto)
            first = collector.compiles[known] if known < len(collector.compiles) else None
            if (cut := cut_at_start(path.name, reading, first)) is not None:
                not_known.append(cut)
            elif reading.first is not None and reading.first.name == "torch_version":
                collector.move_frameless(known)
    if session is not None:
        add_hits(collector.compiles, session, folders.keep if folders is not None else None)
    said = list(notes)
    if session is not None:
        silent = without_compilations(collector.compiles, _ranks_of(session))
        said += [f"no compilation of rank {rank} was seen, while other ranks compiled" for rank in silent]
    if reading.broken_lines:
        said.append(f"{reading.broken_lines} line(s) of the trace could not be read and were left out")
    if folders is not None and folders.left_out:
        said.append(f"{folders.left_out} file(s) of graphs were left out: together they are too large")
    found = explain_compiles(
        collector.compiles, clock, collector.torch, folders.known if folders is not None else lambda _: None
    )
    owners, outside = Owners(collector.compiles), collector.outside.graphs
    not_known += unknowns(collector.compiles, owners, reading.corrupt_payloads)
    use = cache_use(collector.compiles, outside, owners)
    return replace(found, outside=tuple(outside), caches=use, notes=tuple(said), not_known=tuple(not_known))


def _ranks_of(session: Path) -> dict[str, str]:
    """The rank of each watched process that a launcher gave one, by its number."""
    return {str(p.hello["pid"]): str(p.hello["rank"]) for p in processes(session) if p.hello.get("rank") is not None}


def _read_file(path: Path, collector: Collector, clock: Clock, perfetto: Perfetto | None) -> None:
    reading = collector.reading
    reading.lines_before_first = 0
    for record in read(path, reading):
        compile = collector.latest(record)
        event = clock.take(record, compile.key if compile else "", compile.function if compile else "")
        if event is None:
            collector.one(record)
        elif perfetto is not None:
            perfetto.take(record, event)
