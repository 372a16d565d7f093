"""Which failures count as one where they are collected: in one process, and over the ranks of a job.

An exception says by its type and message which it is.  Wrong numbers and hangs say nothing, so the graph does: two
graphs that give wrong numbers are two failures, and one graph that all ranks have is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import Arg, Graph, Made, Name, Node, Ref
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

    Sizes and devices are left out: they differ between ranks, and each time that Dynamo compiles one function again.
    """
    text = "\n".join(line for one in graph.all_graphs() for line in _lines(one))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _lines(graph: Graph) -> Iterator[str]:
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        target = node.target if node.is_call else ""  # of inputs and attributes, a name
        yield f"{node.op.value} {target} {_dtype(node)} {_place(node)} {_text((node.args, node.kwargs), places)}"


def _dtype(node: Node) -> str:
    return str(getattr(node.value, "dtype", ""))


def _place(node: Node) -> str:
    return f"{node.source.file}:{node.source.line}" if node.source is not None else ""


def _text(arg: Arg, places: Mapping[str, int]) -> str:
    """An argument without its whole numbers."""
    if isinstance(arg, Ref):
        return f"%{places.get(arg.name, '?')}"
    if isinstance(arg, (list, tuple)):
        return f"({','.join(_text(one, places) for one in arg if type(one) is not int)})"
    if isinstance(arg, Mapping):
        return f"({','.join(f'{name}={_text(value, places)}' for name, value in sorted(arg.items()))})"
    if isinstance(arg, (bool, float, complex, str, Name)) or arg is None:
        return repr(arg)
    return arg.maker if isinstance(arg, Made) else type(arg).__name__
