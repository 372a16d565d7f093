"""Fewer dimensions: the first one of every tensor that has as many as the largest, then of single tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from torchsleuth.case.model import Case, Storage, Tensor
from torchsleuth.case.program.values import contiguous_stride


def propose(case: Case) -> Iterator[Case]:
    ranks = {i: len(v.shape) for i, v in enumerate(case.inputs) if isinstance(v, Tensor) and v.shape and not v.flags}
    if not ranks:
        return
    highest = max(ranks.values())
    if highest > 1:
        chosen = [i for i, rank in ranks.items() if rank == highest]
        yield _without_first(case, chosen)
        if len(ranks) > len(chosen):
            yield _without_first(case, [i for i, rank in ranks.items() if rank > 1])
        if len(chosen) > 1:
            yield from (_without_first(case, [i]) for i in chosen)


def _without_first(case: Case, chosen: Collection[int]) -> Case:
    inputs, storages = list(case.inputs), list(case.storages)
    nodes = {n.name: n for n in case.graph.nodes}
    for i in chosen:
        tensor, node = inputs[i], case.graph.placeholders[i]
        assert isinstance(tensor, Tensor)
        shape = tensor.shape[1:]
        storages.append(Storage(0))
        dynamic = tuple(d - 1 for d in tensor.dynamic if d)
        inputs[i] = replace(
            tensor, shape=shape, stride=contiguous_stride(shape), offset=0, storage=len(storages) - 1, dynamic=dynamic
        )
        if node.value is not None:
            nodes[node.name] = replace(node, value=replace(node.value, shape=node.value.shape[1:], stride=None))
    graph = replace(case.graph, nodes=tuple(nodes.values()))
    return replace(case, graph=graph, inputs=tuple(inputs), storages=tuple(storages))
