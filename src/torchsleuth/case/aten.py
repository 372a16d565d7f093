"""The graph that AOTAutograd hands to Inductor, with everything Inductor was told beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.case import from_torch
from torchsleuth.case.caller import any_line, with_lines
from torchsleuth.case.failure import Failure, Phase
from torchsleuth.case.ir import Graph
from torchsleuth.case.model import Case, Input, Level, Opaque, Scalar, Storage, Tensor
from torchsleuth.case.program.frame import constant

# graph_id names the graph within its process; the others are objects that say how to report, not what to make.
_NOT_CONTEXT = {
    "graph_id",
    "extern_node_serializer",
    "boxed_forward_device_index",
    "get_decomp_fn",
    "compile_region_name",
}

_VIEW, _RESHAPE = "torch.ops.aten.view.default", "torch.ops.aten.reshape.default"


def sketch(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    forward: Case,
    roots: Mapping[str, str] = from_torch.NO_ROOTS,
) -> Case:
    attributes = from_torch.Tensors()
    graph = _as_given(from_torch.graph_of(module, attributes, roots), inputs)
    graph = with_lines(graph, lambda: any_line(forward.graph))
    found: list[Input] = []
    storages: list[Storage] = []
    for value in inputs:
        found.append(_input(value, storages))
    constants = tuple(_described(t, storages) for t in attributes.kept)
    return Case(
        Level.ATEN, graph, tuple(found), constants, tuple(storages), forward.surroundings, forward.phase, None,
        forward.versions, forward.compile_id, _context(module, kwargs),
    )  # fmt: skip


def _as_given(graph: Graph, inputs: Sequence[Any]) -> Graph:
    """With what Inductor is given: what a forward saved may be strided otherwise than when the backward was traced.

    Views that were possible then may not be any more.  Inductor begins by making each a reshape; a script, which runs
    the graph in eager and with fake tensors before Inductor has it, needs that from the start.
    """
    given = {
        node.name: from_torch.describe(value)
        for node, value in zip(graph.placeholders, inputs, strict=True)
        if isinstance(value, torch.Tensor)
    }
    otherwise = any(n.value and n.name in given and n.value.stride != given[n.name].stride for n in graph.placeholders)
    nodes = [replace(n, value=given.get(n.name, n.value)) for n in graph.nodes]
    if otherwise:
        nodes = [replace(n, target=_RESHAPE) if n.target == _VIEW else n for n in nodes]
    return replace(graph, nodes=tuple(nodes))


def _input(value: Any, storages: list[Storage]) -> Input:
    if isinstance(value, torch.Tensor):
        return _described(value, storages)
    if torch_api.is_symbolic(value):
        hint = torch_api.hint_of(value)
        expression = torch_api.expression_of(value)
        return Scalar(0 if hint is None else hint, expression if isinstance(expression, str) else "")
    if isinstance(value, (bool, int, float)):
        return Scalar(value)
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}")


def _described(value: torch.Tensor, storages: list[Storage]) -> Tensor:
    shape = tuple(int(torch_api.hint_of(s) or 0) for s in value.shape)
    strided = value.layout is torch.strided
    stride = tuple(int(torch_api.hint_of(s) or 0) for s in value.stride()) if strided else ()
    offset = int(torch_api.hint_of(value.storage_offset()) or 0) if strided else 0
    dynamic = tuple(i for i, s in enumerate(value.shape) if isinstance(torch_api.expression_of(s), str))
    storages.append(Storage(0))
    return Tensor(
        str(value.dtype), shape, stride, offset, str(value.device), len(storages) - 1, dynamic=dynamic,
        unknown="" if strided else str(value.layout),
    )  # fmt: skip


def _context(module: torch.fx.GraphModule, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {k: torch_api.unboxed(v) for k, v in kwargs.items() if k not in _NOT_CONTEXT}
    kept = {k: list(v) if isinstance(v, (tuple, range)) else v for k, v in plain.items()}
    output = next(iter(reversed(module.graph.nodes)))
    meta = {k: output.meta[k] for k in ("user_visible_output_idxs", "original_output_strides") if k in output.meta}
    return {
        "kwargs": {k: v for k, v in kept.items() if constant(v)},
        "output": {k: _plain(v) for k, v in meta.items()},
        "unknown": sorted(k for k, v in kept.items() if not constant(v)),
        "symbols": torch_api.symbols_of(module),
        "donated": torch_api.donated_inputs() if kwargs.get("is_backward") else [],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, torch.Size)):
        return [_plain(v) for v in value]
    return torch_api.expression_of(value)


def finished(case: Case, phase: Phase, failure: Failure | None) -> Case:
    return replace(case, phase=phase, failure=failure)
