"""From kernel to operator to user line, for one graph: read from Inductor's generated code and Dynamo's graph.

Where the generated code notes the nodes that a kernel comes from, those are taken.  A fused C++ kernel bears only the
names of its operators; there every node of such an operator is given, and the line says that it is by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NODES = re.compile(r"# Topologically Sorted Source Nodes: \[([^\]]*)\]")
_CALL = re.compile(
    r"^\s*(?:[\w., ]+ = )?(extern_kernels\.\w+|(?:cpp|triton)\w*_fused\w*|torch\.ops\.[\w.]+)(?:\.run)?\("
)
_FUSED = re.compile(r"^\w*?fused_(.+?)_\d+$")
_PLACE = re.compile(r"^\s*# File: (.+:\d+) in \w+, code: (.*)$")
_NODE = re.compile(r"^\s*(\w+)(?:: \"[^\"]*\")? = (.+)$")


@dataclass(frozen=True)
class Node:
    name: str
    place: str
    code: str


def kernel_lines(graph: str, generated: str) -> Iterator[str]:
    """One line a kernel and user line."""
    nodes = list(_nodes(graph))
    for kernel, names in _kernels(generated):
        exact = [n for n in nodes if n.name in names]
        fused = _FUSED.match(kernel)
        words = set(fused[1].split("_")) if fused else set()
        by_name = [] if exact else [n for n in nodes if words & set(re.sub(r"_?\d+$", "", n.name).split("_"))]
        how = "" if exact else "  (by name)"
        for node in exact or by_name:
            yield f"{kernel}  <-  {node.name}  <-  {node.place}: {node.code}{how}"
        if not exact and not by_name:
            yield f"{kernel}  <-  ?"


def _nodes(graph: str) -> Iterator[Node]:
    place, code = "", ""
    for line in graph.splitlines():
        if found := _PLACE.match(line):
            place, code = found[1], found[2].strip()
        elif (found := _NODE.match(line)) and place:
            yield Node(found[1], place, code)


def _kernels(generated: str) -> Iterator[tuple[str, set[str]]]:
    names: set[str] = set()
    body = generated.partition("def call(")[2].partition("\ndef ")[0]
    for line in body.splitlines():
        if found := _NODES.search(line):
            names = {name.strip() for name in found[1].split(",")}
        elif found := _CALL.match(line):
            yield found[1], names
            names = set()
