"""A backend that notes what each operator of Dynamo's graphs gives: in eager, or compiled by Inductor.

Every result is copied where it is made, so that what is written to it later does not show; the copies are outputs of
the graph.  In Inductor that stands in the way of some fusions: a fault that needs one of them is not seen so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.case.from_torch import source_of
from torchsleuth.operators.names import base_name
from torchsleuth.referee.records import Record, sampled


class Recorder:
    """`torch.compile(model, backend=recorder)`; after a call `records` tells of it."""

    def __init__(self, *, compiled: bool) -> None:
        self.records: list[Record] = []
        self._compiled = compiled
        self._turns: Counter[tuple[str, str]] = Counter()

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        opened = torch_api.copy_of_graph(gm)
        nodes = [n for n in opened.graph.nodes if n.op.startswith("call_") and _gives_tensor(n)]
        output = opened.graph.output_node()
        results: tuple[Any, ...] = tuple(output.args[0])  # type: ignore[arg-type]
        copies = []
        for node in nodes:
            with opened.graph.inserting_after(node):
                copies.append(opened.graph.call_function(torch.clone, (node,)))
        output.args = ((*results, *copies),)
        opened.recompile()
        run = torch_api.compile_with_inductor(opened, inputs, {}) if self._compiled else opened.forward

        def call(*args: Any) -> Any:
            got = run(*args)
            self._note(nodes, got[len(results) :])
            return got[: len(results)]

        return call

    def _note(self, nodes: Sequence[torch.fx.Node], values: Sequence[torch.Tensor]) -> None:
        first = len(self.records)
        places = {node: first + i for i, node in enumerate(nodes)}
        for node, value in zip(nodes, values, strict=True):
            source = source_of(node)
            module, op = (source.module if source else ""), _operator(node)
            turn = self._turns[module, op]
            self._turns[module, op] += 1
            said = f"{source.file}:{source.line}: {source.code}" if source and source.file else ""
            sample, rms = sampled(value)
            given = tuple(sorted({places[n] for n in _made_from(node, places)}))
            self.records.append(
                Record(module, op, turn, said, tuple(value.shape), str(value.dtype), rms, given, sample)
            )


def _operator(node: torch.fx.Node) -> str:
    target = node.target
    return base_name(target if isinstance(target, str) else torch_api.qualified_name(target) or str(target))


def _gives_tensor(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _made_from(node: torch.fx.Node, known: dict[torch.fx.Node, int]) -> set[torch.fx.Node]:
    """Inputs that were noted; through those that were not (tuples, sizes)."""
    found: set[torch.fx.Node] = set()
    seen, todo = {node}, list(node.all_input_nodes)
    while todo:
        now = todo.pop()
        if now in seen:
            continue
        seen.add(now)
        if now in known:
            found.add(now)
        else:
            todo += now.all_input_nodes
    return found
