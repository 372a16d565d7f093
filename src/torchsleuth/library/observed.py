"""What one run of a check shows: the result, gradients, and what the run left in inputs, model and closed-over values.

Tensors are compared as they are left, parameters where the run changed them.  Plain values (numbers, texts) and types
in inputs and in the model are compared too, but not counted: most are settings that no run changes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.library.given import Call
from torchsleuth.library.held import Leaf
from torchsleuth.library.lending import Lent
from torchsleuth.referee.graph import run_backward
from torchsleuth.referee.structure import Item, Sort, walk
from torchsleuth.referee.values import Holder, Seen, flatten, seen_of

_UNCHANGED = Holder("parameter that the run did not change")


@dataclass(frozen=True)
class Shown:
    seen: list[Seen]
    ran_backward: bool


def observe(call: Call, lent: Lent, function: Callable[..., Any], *, backward: bool) -> Shown:
    """Call `function`, which is `call.model` compiled or not, and collect what is compared."""
    asking = _asking(call, lent)
    before = {item.path: _identity(item) for item in _reached(call, lent)}
    out = function(*call.args, **call.kwargs)
    seen = list(flatten(out, "out", holders=True))
    ran = backward and run_backward(out, [leaf.value for leaf in asking])
    for item in _reached(call, lent):
        seen += _left_in(item, before.get(item.path))
    if ran:
        seen += [s for leaf in asking for s in flatten(leaf.value.grad, f"{leaf.path}.grad")]
    return Shown(seen, ran)


def _reached(call: Call, lent: Lent) -> Iterator[Item]:
    """Everything in inputs, model and what is closed over, each path once."""
    seen: set[str] = set()
    for name, value in call.inputs.items():
        yield from _new(walk(value, name), seen)
    owner = call.model.__self__ if isinstance(call.model, types.MethodType) else call.model
    if not isinstance(owner, types.FunctionType):  # what functions close over is lent
        yield from _new((replace(i, path=i.path.removeprefix(".")) for i in walk(owner, "")), seen)
    left_out = lent.objects.keys() - {id(tensor) for tensor in lent.tensors}
    for name, value in lent.named.items():
        found = (i for i in walk(value, name) if i.sort is not Sort.TENSOR or id(i.value) not in left_out)
        yield from _new(found, seen)


def _new(items: Iterator[Item], seen: set[str]) -> Iterator[Item]:
    for item in items:
        if item.path not in seen:
            seen.add(item.path)
            yield item


def _left_in(item: Item, before: object) -> Iterator[Seen]:
    if item.sort is Sort.TENSOR:
        unchanged = isinstance(item.value, torch.nn.Parameter) and _identity(item) == before
        yield from [Seen(item.path, _UNCHANGED)] if unchanged else seen_of(item)
    elif item.sort is not Sort.OPAQUE:
        yield from (replace(s, is_aside=True) for s in seen_of(item))
    elif _identity(item) != before:  # what is still the object it was is no result of the run
        yield from seen_of(item)


def _identity(item: Item) -> object:
    """What tells whether a run changed a parameter, or put another object in the place of one that hides its state."""
    if item.sort is Sort.TENSOR and isinstance(item.value, torch.nn.Parameter):
        return torch_api.digest(item.value)
    return item.identity


def _leaves(call: Call, lent: Lent) -> Iterator[Leaf]:
    yield from call.of_inputs()
    yield from call.of_model()
    yield from lent.leaves()


def _asking(call: Call, lent: Lent) -> list[Leaf]:
    """Each tensor that asks for gradients once: as a module's parameter rather than in an optimizer's list."""
    found: dict[int, Leaf] = {}
    for leaf in sorted(_leaves(call, lent), key=lambda leaf: not leaf.is_parameter):
        if isinstance(leaf.value, torch.Tensor) and leaf.value.is_leaf and leaf.value.requires_grad:
            found.setdefault(id(leaf.value), leaf)
    return list(found.values())
