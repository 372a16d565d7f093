"""Which failures count as one where they are collected: in one process, and over the ranks of a job.

An exception says by its type and message which it is.  Wrong numbers and hangs say nothing, so the graph does: two
graphs that give wrong numbers are two failures, and one graph that all ranks have is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import Arg, Graph, Made, Name, Op, Ref, inputs_of
from torchsleuth.referee import told

_SILENT = (Kind.ACCURACY, Kind.HANG)


def key_of(failure: Failure, graph: Graph | None = None) -> str:
    """Equal for failures that count as one."""
    key = f"{failure.kind.value} {failure.phase.value} {failure.fingerprint.line}"
    if failure.kind not in _SILENT or graph is None:
        return key
    return " ".join([key, *told.wrong_paths(failure.text), digest(graph)])


def digest(graph: Graph) -> str:
    """Of what a graph computes and where the user wrote it.

    Sizes, known or symbolic, and devices are left out: they differ between ranks, and each time that Dynamo compiles
    one function again.
    """
    text = "\n".join(line for one in graph.all_graphs() for line in _lines(one))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _lines(graph: Graph) -> Iterator[str]:
    sizes = _sizes(graph)
    nodes = [node for node in graph.nodes if node.name not in sizes]
    places = {node.name: place for place, node in enumerate(nodes)}
    for node in nodes:
        target = node.target if node.is_call else ""  # of inputs and attributes, a name
        dtype = node.value.dtype if node.value is not None else ""
        place = f"{node.source.file}:{node.source.line}" if node.source is not None else ""
        yield f"{node.op.value} {target} {dtype} {place} {_text((node.args, node.kwargs), places)}"


def _sizes(graph: Graph) -> set[str]:
    """Nodes that are symbolic sizes, or numbers that are worked out from such."""
    found: set[str] = set()
    for node in graph.nodes:
        given = list(inputs_of(node))
        measured = node.is_call and (node.target == "size" or (bool(given) and found.issuperset(given)))
        if node.value is None and (node.op is Op.PLACEHOLDER or measured):
            found.add(node.name)
    return found


def _text(arg: Arg, places: Mapping[str, int]) -> str:
    """An argument without whole numbers and sizes."""
    if isinstance(arg, Ref):
        return f"%{places.get(arg.name, '?')}"
    if isinstance(arg, (list, tuple)):
        return f"({','.join(_text(one, places) for one in arg if not _is_size(one, places))})"
    if isinstance(arg, Mapping):
        return f"({','.join(f'{k}={_text(v, places)}' for k, v in sorted(arg.items()) if not _is_size(v, places))})"
    if isinstance(arg, (bool, float, complex, str, Name)) or arg is None:
        return repr(arg)
    return arg.maker if isinstance(arg, Made) else type(arg).__name__


def _is_size(arg: Arg, places: Mapping[str, int]) -> bool:
    return type(arg) is int or (isinstance(arg, Ref) and arg.name not in places)
