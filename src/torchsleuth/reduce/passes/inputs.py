"""Inputs that are plainer than they were: no gradient, no role, no odd layout, no odd dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from torchsleuth.case.ir import Ref, map_args
from torchsleuth.case.model import Case, Input, Role, Storage, Tensor
from torchsleuth.case.program.values import contiguous_stride, is_contiguous
from torchsleuth.reduce import cone
from torchsleuth.reduce.edit import is_floating

Change = Callable[[Tensor], Tensor]


def _changed(case: Case, change: Change) -> Iterator[Case]:
    """All tensors changed at once, then one by one; nothing where nothing changes."""
    new = tuple(change(v) if isinstance(v, Tensor) else v for v in case.inputs)
    different = [i for i, (a, b) in enumerate(zip(new, case.inputs, strict=True)) if a != b]
    if not different:
        return
    yield replace(case, inputs=new)
    if len(different) > 1:
        for i in different:
            yield replace(case, inputs=(*case.inputs[:i], new[i], *case.inputs[i + 1 :]))


def without_gradients(case: Case) -> Iterator[Case]:
    if not case.phase.backward:
        yield from _changed(case, lambda t: replace(t, requires_grad=False, leaf=True))


def plain_arguments(case: Case) -> Iterator[Case]:
    yield from _changed(case, lambda t: replace(t, role=Role.ARGUMENT))


def contiguous(case: Case) -> Iterator[Case]:
    """Memory of its own for each tensor, laid out plainly."""
    storages = list(case.storages)

    def own(tensor: Tensor) -> Tensor:
        shared = sum(isinstance(v, Tensor) and v.storage == tensor.storage for v in case.inputs) > 1
        if not shared and is_contiguous(tensor) and not tensor.flags and not tensor.offset:
            return tensor
        storages.append(Storage(0))
        plain = contiguous_stride(tensor.shape)
        return replace(tensor, stride=plain, offset=0, flags=(), storage=len(storages) - 1)

    for simpler in _changed(case, own):
        yield replace(simpler, storages=tuple(storages))


def float32(case: Case) -> Iterator[Case]:
    odd = [v for v in case.inputs if isinstance(v, Tensor) and is_floating(v.dtype) and "complex" not in v.dtype]
    if any(t.dtype != "torch.float32" for t in odd):
        yield from _changed(case, lambda t: replace(t, dtype="torch.float32") if t in odd else t)


def shared(case: Case) -> Iterator[Case]:
    """f(x, x) instead of f(x, y): all that look alike at once, then one by one.

    Not what the graph writes to: a write that another argument sees is another program.
    """
    written = set(cone.written_inputs(case.graph))
    read = [j for j, n in enumerate(case.graph.placeholders) if n.name not in written]
    first: dict[int, int] = {}  # input -> the first that looks like it
    for j in read:
        i = next((i for i in read if i < j and i not in first and _alike(case.inputs[i], case.inputs[j])), None)
        if i is not None:
            first[j] = i
    if len(first) > 1:
        yield _merged(case, first)
    yield from (_merged(case, {j: i}) for j, i in first.items())


def _alike(a: Input, b: Input) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return False
    return _look(a) == _look(b)


def _look(tensor: Tensor) -> Tensor:
    return replace(tensor, storage=0, source="", low=None, high=None)


def _merged(case: Case, first: Mapping[int, int]) -> Case:
    names = [n.name for n in case.graph.placeholders]
    instead = {names[j]: names[i] for j, i in first.items()}

    def put(leaf: object) -> object:
        return Ref(instead[leaf.name]) if isinstance(leaf, Ref) and leaf.name in instead else leaf

    nodes = [
        replace(n, args=map_args(n.args, put), kwargs={k: map_args(v, put) for k, v in n.kwargs.items()})
        for n in case.graph.nodes
        if n.name not in instead
    ]
    inputs = tuple(v for j, v in enumerate(case.inputs) if j not in first)
    return replace(case, graph=replace(case.graph, nodes=tuple(nodes)), inputs=inputs)
