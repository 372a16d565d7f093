"""The line that called what is running: all that is known of a module of torch's own that was compiled as it is."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from dataclasses import replace

from torchsleuth.case.ir import Graph, Node, Source

_NOT_THE_USERS = ("torch", "torchsleuth")


def caller() -> Source | None:
    frame = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        # Kernels are called through functions of torch without a file, and by the standard library's contexts.
        if package not in _NOT_THE_USERS and not frame.f_code.co_filename.startswith("<") and package != "contextlib":
            name, line = frame.f_code.co_filename, frame.f_lineno
            return Source(name, line, frame.f_code.co_name, linecache.getline(name, line).strip())
        frame = frame.f_back  # type: ignore[assignment]
    return None


def with_lines(graph: Graph, place: Callable[[], Source | None]) -> Graph:
    """Where no node of a graph has a line, each has the one of `place`, which is asked only then."""
    if any_line(graph) is not None:
        return graph
    line = place()
    return graph if line is None else _at(graph, line)


def any_line(graph: Graph) -> Source | None:
    return next((n.source for g in graph.all_graphs() for n in g.nodes if n.source and n.source.file), None)


def _at(graph: Graph, line: Source) -> Graph:
    nodes = tuple(_called_at(n, line) if n.is_call else n for n in graph.nodes)
    return replace(graph, nodes=nodes, bodies={name: _at(body, line) for name, body in graph.bodies.items()})


def _called_at(node: Node, line: Source) -> Node:
    return replace(node, source=replace(line, module=node.source.module if node.source else ""))
