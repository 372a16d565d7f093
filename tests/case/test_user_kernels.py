"""Calls of the user's own Triton kernels: in a graph, as text, as a launch.  The kernels here are stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.fx
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

from torchsleuth.case import graph_text, user_kernels
from torchsleuth.case.from_torch import Tensors, graph_of
from torchsleuth.case.ir import Graph, Node
from torchsleuth.case.model import Case, Code, Level
from torchsleuth.case.program.statements import Body, CannotRender, call
from torchsleuth.case.to_torch import graph_module
from torchsleuth.errors import DamagedCase, UnsafeGraph
from torchsleuth.reduce.passes import arguments


@dataclass(eq=False)
class Kernel:
    fn: Any


@dataclass(eq=False)
class Config:
    kwargs: dict[str, int]


@dataclass(eq=False)
class Tuned:
    fn: Kernel
    configs: list[Config]


def add(x: Any, out: Any, n: int, BLOCK: int) -> None: ...


def traced(kernel: Any, grid: list[tuple[int, ...]], constants: dict[str, Any]) -> Graph:
    graph = torch.fx.Graph()
    x, out = graph.placeholder("x"), graph.placeholder("out")
    x.meta["val"] = out.meta["val"] = torch.empty(2, 3, device="meta")
    graph.call_function(
        triton_kernel_wrapper_mutation,
        kwargs={
            "kernel_idx": kernel_side_table.add_kernel(kernel),
            "constant_args_idx": kernel_side_table.add_constant_args(constants),
            "grid": grid,
            "tma_descriptor_metadata": {},
            "kwargs": {"x": x, "out": out},
        },
    )
    graph.output((out,))
    return graph_of(torch.fx.GraphModule(torch.nn.Module(), graph), Tensors())


def launch(graph: Graph) -> str:
    node = _call(graph)
    return call(node, Body({}, kernels={str(node.kwargs["kernel"]): "add"}), "")


def _call(graph: Graph) -> Node:
    return next(n for n in graph.nodes if user_kernels.number_of(n) is not None)


def test_a_call_is_kept_by_value_and_written_as_a_launch() -> None:
    graph = traced(Kernel(add), [(4, 1, 1)], {"n": 5, "BLOCK": 16})
    node = _call(graph)
    assert str(node.kwargs["kernel"]).startswith("add:")
    assert "kernel_idx" not in node.kwargs
    assert graph_text.parse(graph_text.write(graph), graph_text.table(graph)) == graph
    assert launch(graph) == "add[(4, 1, 1)](x=x, out=out, n=5, BLOCK=16)"


def test_autotuning_keeps_a_grid_for_each_choice() -> None:
    tuned = Tuned(Kernel(add), [Config({"BLOCK": 16}), Config({"BLOCK": 32})])
    graph = traced(tuned, [(4, 1, 1), (2, 1, 1)], {"n": 5})
    text = launch(graph)
    assert text == "add[lambda meta: {(16,): (4, 1, 1), (32,): (2, 1, 1)}[meta['BLOCK'],]](x=x, out=out, n=5)"
    assert launch(traced(tuned, [(4, 1, 1), (4, 1, 1)], {"n": 5})) == "add[(4, 1, 1)](x=x, out=out, n=5)"


def test_a_kernel_is_not_given_less_than_it_was_launched_with() -> None:
    graph = traced(Kernel(add), [(4, 1, 1)], {"n": 6})
    node = _call(graph)
    assert node.kwargs["sizes"] == {"x": 6, "out": 6}
    assert list(user_kernels.too_small(node, {"x": 6, "out": 2})) == ["out"]
    assert not list(user_kernels.too_small(node, {"x": 8, "out": None}))
    assert not list(arguments.propose(Case(Level.DYNAMO, graph, ())))
    assert user_kernels.calls_one(graph)


def test_what_cannot_be_launched_is_said() -> None:
    graph = traced(Kernel(add), [(4, 1, 1)], {"n": 5})
    with pytest.raises(CannotRender, match="no form as a launch"):
        call(_call(graph), Body({}), "")  # its source is not carried
    with pytest.raises(DamagedCase, match="Triton kernel of the program's"):
        graph_module(graph, [])


def test_kernels_are_found_among_what_is_carried() -> None:
    code = [Code("operator a::b", "b", ""), Code(user_kernels.what("add:3"), "mine.add", "")]
    assert user_kernels.expressions(code) == {"add:3": "mine.add"}


@pytest.mark.parametrize(
    "forged",
    [
        {"kernel": "add"},
        {"kernel": 3},
        {"constants": {"n=1, m": 2}},
        {"constants": [1]},
        {"kwargs": 5},
        {"grid": [1]},
        {"choices": 7},
    ],
)
def test_a_forged_call_is_refused(forged: dict[str, Any]) -> None:
    """What stands in the call becomes part of a script: names must be names."""
    graph = traced(Kernel(add), [(4, 1, 1)], {"n": 5})
    nodes = tuple(replace(n, kwargs={**n.kwargs, **forged}) if n is _call(graph) else n for n in graph.nodes)
    damaged = replace(graph, nodes=nodes)
    with pytest.raises(UnsafeGraph, match="Triton kernel"):
        graph_text.parse(graph_text.write(damaged), graph_text.table(damaged))
