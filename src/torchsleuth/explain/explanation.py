"""The whole of what is known of a program under torch.compile, and its form as explain.json (schema 1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth.explain.break_text import Place, is_machinery, plain_function
from torchsleuth.explain.breaks import GraphBreak, find_breaks
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.ranks import Rank, Unlike, compare
from torchsleuth.explain.recompiles import Recompile, find_recompiles
from torchsleuth.explain.times import STEP_ORDER, Clock, Slice, tree

SCHEMA = 1
PHASES = ("dynamo", "aot", "inductor")


@dataclass(frozen=True)
class Frame:
    """One user function, with all that was compiled of it."""

    place: Place
    graphs: int
    ops: int
    compiles: int
    calls: int | None
    seconds: float
    outcome: str  # compiled, broken, eager, failed
    phases: dict[str, float]
    stack: tuple[Place, ...]  # how the program first came to it


@dataclass(frozen=True)
class Graph:
    compile_id: str
    process: str
    frame: Place
    ops: int
    guards: int
    seconds: float
    calls: int | None
    cache: str
    stack: tuple[Place, ...]
    breaks: bool
    folder: str | None
    artifacts: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    torch: str
    breaks: tuple[GraphBreak, ...]
    recompiles: tuple[Recompile, ...]
    frames: tuple[Frame, ...]
    graphs: tuple[Graph, ...]
    phases: dict[str, float]
    steps: dict[str, float]
    picture: Slice
    processes: int
    failures: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())
    ranks: tuple[Rank, ...] = ()  # where there are several processes
    unlike: tuple[Unlike, ...] = ()

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(g.ops for g in self.graphs)


def explain_compiles(
    compiles: Sequence[Compile],
    clock: Clock,
    torch: str,
    notes: Sequence[str] = (),
    folder_of: Callable[[Compile], Path | None] = lambda _: None,
) -> Explanation:
    owners = Owners(compiles)
    for compile in compiles:
        if compile.key in clock.phases:  # the trace's own sums leave the backward out
            compile.phases = clock.phases[compile.key]
            compile.seconds = sum(compile.phases.values())
    frames = _frames(compiles, owners)
    phases = {p: sum(c.phases.get(p, 0.0) for c in compiles) for p in PHASES}
    graphs = tuple(
        Graph(
            c.id, c.process, owners.of(c), ops_of(c), c.guards, c.seconds, c.calls, c.cache, c.stack, c.met is not None,
            str(folder.name) if (folder := folder_of(c)) is not None else None, tuple(c.artifacts),
        )
        for c in compiles
        if c.graphs
    )  # fmt: skip
    known = {"Unsupported"}
    failures = tuple(
        f"{owners.of(c).function}: {c.failed}" for c in compiles if c.failed and c.failed.partition(":")[0] not in known
    )
    return Explanation(
        torch, find_breaks(compiles, owners), find_recompiles(compiles), frames, graphs, phases,
        {s: clock.steps[s] for s in STEP_ORDER if s in clock.steps}, tree(clock),
        len({c.process for c in compiles}), failures, tuple(notes), *compare(compiles, owners),
    )  # fmt: skip


def ops_of(compile: Compile) -> int:
    return compile.ops or (compile.seen_ops if compile.graphs else 0)


def _frames(compiles: Sequence[Compile], owners: Owners) -> tuple[Frame, ...]:
    groups: dict[Place, list[Compile]] = {}
    for compile in compiles:
        if compile.started:
            groups.setdefault(owners.of(compile), []).append(compile)
    frames = []
    for place, members in groups.items():
        whole = [c for c in members if c.resumed_at is None] or members
        counted = [c.calls for c in whole if c.calls is not None]
        frames.append(
            Frame(
                place,
                sum(c.graphs for c in members),
                sum(ops_of(c) for c in members if c.graphs),
                len(whole),
                sum(counted) if counted else None,
                sum(c.seconds for c in members),
                _outcome(members),
                {p: sum(c.phases.get(p, 0.0) for c in members) for p in PHASES},
                whole[0].stack,
            )
        )
    return tuple(frames)


def _outcome(members: Sequence[Compile]) -> str:
    if any(c.failed and not c.failed.startswith("Unsupported") for c in members):
        return "failed"
    if any(c.met.gave_up for c in members if c.met is not None) or not any(c.compiled for c in members):
        return "eager"
    return "broken" if any(c.met for c in members) else "compiled"


def to_json(found: Explanation, *, version: str, command: Sequence[str], exit_code: int | None) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "torchsleuth": version,
        "torch": found.torch,
        "command": list(command),
        "exit_code": exit_code,
        "graph_count": found.graph_count,
        "op_count": found.op_count,
        "break_count": len(found.breaks),
        "breaks": [_break(b) for b in found.breaks],
        "recompiles": [_recompile(r) for r in found.recompiles],
        "frames": [
            {
                "function": f.place.function,
                "source": show(f.place),
                "graphs": f.graphs,
                "ops": f.ops,
                "compiles": f.compiles,
                "seconds": round(f.seconds, 4),
                "calls": f.calls,
                "outcome": f.outcome,
                "phases": {k: round(v, 4) for k, v in f.phases.items()},
                "stack": [f"{show(p)} in {plain_function(p.function)}" for p in _users(f.stack)],
            }
            for f in found.frames
        ],
        "graphs": [_graph(g) for g in found.graphs],
        "phases": {k: round(v, 4) for k, v in found.phases.items()},
        "steps": {k: round(v, 4) for k, v in found.steps.items()},
        "picture": _picture(found.picture, found.picture.seconds),
        "processes": found.processes,
        "ranks": [{**asdict(r), "seconds": round(r.seconds, 4)} for r in found.ranks],
        "unlike": [
            {
                "function": u.place.function,
                "source": show(u.place),
                "compiles": {r.name: n for r, n in zip(found.ranks, u.compiles, strict=True)},
            }
            for u in found.unlike
        ],
        "failures": list(found.failures),
        "notes": list(found.notes),
        "report": "report.html",
    }


def _break(found: GraphBreak) -> dict[str, Any]:
    return {
        "reason": found.reason,
        "source": show(found.place),
        "function": found.place.function,
        "count": found.count,
        "counted": found.counted,
        "advice": found.advice,
        "in_loop": found.in_loop,
        "runs_in_eager": found.gave_up,
        "uncompiled_itself": found.lost_itself,
        "uncompiled": [{"function": p.function, "source": show(p)} for p in found.lost],
        "raised": found.raised,
        "compiles": found.compiles,
        "pieces": list(found.pieces),
        "torch_name": found.kind,
        "explanation": found.explanation,
        "stack": [f"{show(p)} in {p.function}" for p in _users(found.stack)],
        "lines": lines_around(found.place),
    }


def _recompile(found: Recompile) -> dict[str, Any]:
    return {
        "cause": found.cause,
        "source": show(found.place),
        "function": found.function.function,
        "count": found.count,
        "values": list(found.values),
        "advice": found.advice,
        "limit_hit": found.limit_hit,
        "tried": found.tried or None,
        "compile_ids": list(found.compile_ids),
        "lines": lines_around(found.place),
    }


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "id": graph.compile_id,
        "process": graph.process,
        "function": graph.frame.function,
        "source": show(graph.frame),
        "ops": graph.ops,
        "guards": graph.guards,
        "seconds": round(graph.seconds, 4),
        "calls": graph.calls,
        "cache": graph.cache or None,
        "breaks": graph.breaks,
        "stack": [f"{show(p)} in {p.function}" for p in _users(graph.stack)],
        "folder": f"graphs/{graph.folder}" if graph.folder else None,
        "files": list(graph.artifacts),
    }


def _picture(part: Slice, whole: float) -> dict[str, Any]:
    """Boxes too narrow to be seen are left to their parent."""
    wide = [c for c in part.children if c.seconds >= whole * 0.002]
    return {"name": part.name, "seconds": round(part.seconds, 5), "children": [_picture(c, whole) for c in wide]}


def _users(stack: Sequence[Place]) -> list[Place]:
    return [p for p in stack if not is_machinery(p.file)]


def show(place: Place) -> str:
    """file:line, relative to the working folder where it can be."""
    name = place.file
    if os.path.isabs(name):
        relative = os.path.relpath(os.path.realpath(name), os.path.realpath(os.getcwd()))
        name = name if relative.startswith("..") else relative
    return f"{name}:{place.line}" if name else "unknown"


def lines_around(place: Place, reach: int = 3) -> list[list[Any]]:
    """[number, text] of the user's lines around a place; empty where the file is not here."""
    try:
        if Path(place.file).stat().st_size > 4 * 2**20:
            return []
        text = Path(place.file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    first = max(1, place.line - reach)
    return [[n, text[n - 1]] for n in range(first, min(len(text), place.line + reach) + 1)]
