"""An Explanation as explain.json (schema 1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchsleuth.explain.break_text import Place, is_machinery, plain_function
from torchsleuth.explain.breaks import GraphBreak
from torchsleuth.explain.cache_use import CacheUse
from torchsleuth.explain.explanation import Explanation, Frame, Graph
from torchsleuth.explain.other_instances import OtherInstance
from torchsleuth.explain.outside import OutsideGraph
from torchsleuth.explain.ranks import Comparison
from torchsleuth.explain.recompiles import Recompile
from torchsleuth.explain.times import Slice

SCHEMA = 1


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
        "other_instances": [_other(o) for o in found.others],
        "frames": [_frame(f) for f in found.frames],
        "graphs": [_graph(g) for g in found.graphs],
        "phases": {k: round(v, 4) for k, v in found.phases.items()},
        "steps": {k: round(v, 4) for k, v in found.steps.items()},
        "picture": _picture(found.picture, found.picture.seconds),
        "processes": found.processes,
        **_compared(found.comparison),
        "caches": _caches(found.caches),
        "outside": [_outside(g) for g in found.outside],
        "failures": list(found.failures),
        "notes": list(found.notes),
        "not_known": list(found.not_known),
        "report": "report.html",
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "function": frame.place.function,
        "source": show(frame.place),
        "graphs": frame.graphs,
        "ops": frame.ops,
        "compiles": frame.compiles,
        "succeeded": frame.ends.succeeded,
        "failed": frame.ends.failed,
        "not_known": frame.ends.not_known,
        "after_reset": frame.ends.after_reset,
        "seconds": round(frame.seconds, 4),
        "calls": frame.calls,
        "outcome": frame.outcome.value,
        "phases": {k: round(v, 4) for k, v in frame.phases.items()},
        "stack": [f"{show(p)} in {plain_function(p.function)}" for p in _users(frame.stack)],
    }


def _compared(found: Comparison) -> dict[str, Any]:
    names = [rank.name for rank in found.ranks]
    return {
        "ranks": [{**asdict(r), "seconds": round(r.seconds, 4)} for r in found.ranks],
        "unlike": [
            {
                "function": u.place.function,
                "source": show(u.place),
                "compiles": dict(zip(names, u.compiles, strict=True)),
            }
            for u in found.unlike
        ],
        "unlike_graphs": [
            {
                "function": u.place.function,
                "source": show(u.place),
                "ops": dict(zip(names, u.ops, strict=True)),
                "differences": list(u.differences),
            }
            for u in found.unlike_graphs
        ],
        "not_compared": list(found.not_compared),
    }


def _caches(found: CacheUse) -> dict[str, Any]:
    return {
        **{
            cache.value: {state.value: number for state, number in numbers.items()}
            for cache, numbers in found.numbers.items()
        },
        "bypasses": [
            {"cache": b.cache.value, "function": b.function, "reason": b.reason or None, "count": b.count}
            for b in found.bypasses
        ],
    }


def _outside(graph: OutsideGraph) -> dict[str, Any]:
    return {
        "what": graph.what,
        "process": graph.process,
        "ops": graph.ops,
        "seconds": None if graph.seconds is None else round(graph.seconds, 4),
        "failed": graph.failed or None,
        "records": list(graph.records),
    }


def _other(found: OtherInstance) -> dict[str, Any]:
    return {
        "class": found.module_class,
        "source": show(found.place),
        "function": found.place.function,
        "causes": list(found.causes),
        "values": list(found.values),
        "count": found.count,
        "instances": found.instances,
        "limit_hit": found.limit_hit,
        "hint": found.hint or None,
        "advice": found.advice,
        "compile_ids": list(found.compile_ids),
        "lines": lines_around(found.place),
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
        "hint": found.hint or None,
        "tried": None if found.trial is None else found.trial.text,
        "tried_answer": None if found.trial is None else found.trial.answer.value,
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
