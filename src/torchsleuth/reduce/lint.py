"""Whether a candidate can mean anything at all: asked before it is judged, because it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torchsleuth.case import user_kernels
from torchsleuth.case.ir import Graph, Op, Ref, inputs_of, leaves
from torchsleuth.case.model import Case, Tensor
from torchsleuth.reduce.edit import may_give_nothing


def problems(case: Case) -> Iterator[str]:
    """What is wrong; nothing for a graph that can be built."""
    if len(case.graph.placeholders) != len(case.inputs):
        yield "inputs and placeholders are not in step"
    if not (may_give_nothing(case) or any(isinstance(leaf, Ref) for leaf in leaves(case.graph.output.args))):
        yield "nothing is given back"
    for value in (*case.inputs, *case.constants):
        if isinstance(value, Tensor):
            yield from _tensor(value, len(case.storages))
    for graph in case.graph.all_graphs():
        yield from _graph(graph, len(case.constants))


def _tensor(tensor: Tensor, storages: int) -> Iterator[str]:
    if not 0 <= tensor.storage < storages:
        yield "a tensor has no storage"
    if len(tensor.shape) != len(tensor.stride) and not tensor.unknown:
        yield "a tensor has another number of sizes than of strides"
    if any(dim >= len(tensor.shape) for dim in tensor.dynamic):
        yield "a dimension is dynamic that is not there"


def _graph(graph: Graph, constants: int) -> Iterator[str]:
    known: set[str] = set()
    elements = {node.name: node.value.elements for node in graph.nodes if node.value is not None}
    owners = {*graph.bodies, *graph.tensors, *graph.modules, *graph.unknown}
    for node in graph.nodes:
        if node.name in known:
            yield f"{node.name} is there twice"
        yield from (f"{node.name} reads {name}, which is not there" for name in inputs_of(node) if name not in known)
        yield from (f"{node.name} would write beyond {given}" for given in user_kernels.too_small(node, elements))
        if node.op in (Op.GET_ATTR, Op.CALL_MODULE) and node.target not in owners:
            yield f"{node.name} names {node.target}, which is not there"
        known.add(node.name)
    if graph.nodes[-1].op is not Op.OUTPUT:
        yield "the graph has no end"
    if any(index >= constants for index in graph.tensors.values()):
        yield "a constant is not there"
