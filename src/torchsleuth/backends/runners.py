"""How a graph is run: node by node, by TorchScript, or as the body of `invoke_subgraph`; and under which modes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.faulty_match import full_name
from torchsleuth.backends.mismatches import GraphRaised, NotScriptable, OperatorFault
from torchsleuth.backends.where import here, in_graph

Runner = Callable[..., Any]
_numbers = itertools.count()


class _NodeByNode(torch.fx.Interpreter):
    """In eager, each node known while it runs; `marked`: what it raises is marked."""

    def __init__(self, gm: torch.fx.GraphModule, marked: bool) -> None:
        super().__init__(gm)
        self.extra_traceback = False  # it would write into the message of the user's exception
        self._marked = marked

    def run_node(self, n: torch.fx.Node) -> Any:
        with in_graph(n):
            try:
                return super().run_node(n)
            except (OperatorFault, GraphRaised):
                raise
            except Exception as error:
                if not self._marked:
                    raise
                name = full_name(n) if n.op in ("call_function", "call_method") else str(n.target)
                raise GraphRaised(name, error, here()) from error


def node_by_node(gm: torch.fx.GraphModule, *, marked: bool) -> Runner:
    return lambda *args: _NodeByNode(gm, marked).run(*args)


def as_invoke_subgraph(run: Runner) -> Runner:
    name = f"sleuth_{next(_numbers)}"
    return lambda *args: torch_api.invoke_subgraph(run, name, args)


def under(modes: Sequence[Callable[[], Any]], run: Runner) -> Runner:
    """The first mode is the outermost."""

    @functools.wraps(run, updated=())
    def call(*args: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for make in modes:
                stack.enter_context(make())
            return run(*args)

    return call


def by_torchscript(gm: torch.fx.GraphModule) -> Runner:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript is deprecated, its user here knows
            scripted = torch_api.script(gm)
    except Exception as error:
        raise NotScriptable(
            f"TorchScript cannot script this graph: {_first_line(error)}. This says nothing about torch.compile: "
            "try sleuth_eager, or sleuth_aot for the graph in ATen operators."
        ) from error

    def run(*args: Any) -> Any:
        with in_graph():
            return scripted(*args)

    return run


def _first_line(error: BaseException) -> str:
    return next((line.strip().rstrip(":.") for line in str(error).splitlines() if line.strip()), type(error).__name__)
