"""Which line of the user's an operator is called from, while it runs.

Inside a compiled graph the Python stack shows only who called the graph: there the node that is being run knows its
line.  Without a graph (a check used as a context manager around plain eager) the stack itself does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

from torchsleuth.case.caller import caller
from torchsleuth.case.from_torch import source_of
from torchsleuth.case.ir import Source

_graph: ContextVar[torch.fx.Node | bool] = ContextVar("_graph", default=False)


@contextlib.contextmanager
def in_graph(node: torch.fx.Node | None = None) -> Iterator[None]:
    """`node` is being run; without one, a graph is, and nobody knows which node of it."""
    token = _graph.set(True if node is None else node)
    try:
        yield
    finally:
        _graph.reset(token)


def here() -> Source | None:
    place = _graph.get()
    if isinstance(place, torch.fx.Node):
        return source_of(place)
    return None if place else caller()
