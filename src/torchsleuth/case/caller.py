"""The line that called what is running: all that is known of a module of torch's own that was compiled as it is."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import replace

from torchsleuth.case.ir import Graph, Node, Source

_NOT_THE_USERS = ("torch", "torchsleuth")
_TORCH_FILE = re.compile(r"(?:site|dist)-packages[/\\]torch[/\\]")


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
    """Where no node of a graph has a line of the user's, each has the one of `place`, which is asked only then.

    Of flex_attention compiled as it is, the function that masks has lines, and what calls it has not.
    """
    bodies = {name: with_lines(body, place) for name, body in graph.bodies.items()}
    if any(bodies[name] is not graph.bodies[name] for name in bodies):
        graph = replace(graph, bodies=bodies)
    if not any(n.is_call for n in graph.nodes) or any(_is_users(n.source) for n in graph.nodes):
        return graph
    line = place()
    if line is None:
        return graph
    return replace(graph, nodes=tuple(_called_at(n, line) if n.is_call else n for n in graph.nodes))


def any_line(graph: Graph) -> Source | None:
    return next((n.source for g in graph.all_graphs() for n in g.nodes if _is_users(n.source)), None)


def is_torchs(file: str) -> bool:
    return _TORCH_FILE.search(file) is not None


def _is_users(source: Source | None) -> bool:
    return source is not None and bool(source.file) and not is_torchs(source.file)


def _called_at(node: Node, line: Source) -> Node:
    return replace(node, source=replace(line, module=node.source.module if node.source else ""))
