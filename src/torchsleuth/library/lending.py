"""What a function closes over, lent to a run: the same objects, with contents of their own for as long as it lasts.

They cannot be copied as inputs are, since nobody can hand a function other ones.  So each tensor is given other memory,
and no gradient; afterwards it has its own again, and so have attributes and containers.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.library.held import Leaf, explored, leaves
from torchsleuth.referee import arrays
from torchsleuth.referee.structure import attributes_of
from torchsleuth.watch.free_memory import room_to_compare

_DICTS = (dict, OrderedDict, defaultdict)
_RESTORED = (*_DICTS, list, set, deque)  # of a subclass nobody knows what its methods do
_MOST_NAMED = 3


@dataclass(frozen=True)
class Lent:
    named: Mapping[str, Any]  # what is closed over
    objects: Mapping[int, Any]  # all that is reached from there and holds tensors, by `id`
    tensors: tuple[torch.Tensor, ...]  # those that can be lent
    copied: frozenset[int] = frozenset()  # of these, what gets memory of its own; of the others, gradients alone
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(named: Mapping[str, Any]) -> Lent:
        tree = explored(named.values())
        found: dict[int, Leaf] = {}
        for name, value in named.items():
            for leaf in leaves(value, name):
                if isinstance(leaf.value, torch.Tensor):
                    found.setdefault(id(leaf.value), leaf)
        able = {place: leaf for place, leaf in found.items() if _can_be_lent(leaf.value)}
        copied = _that_fit(able)
        notes = (
            _note([leaf.path for place, leaf in found.items() if place not in able], "not copied"),
            _note([leaf.path for place, leaf in able.items() if place not in copied], "too large to be copied"),
        )
        return Lent(
            named,
            {place: tree.objects[place] for place in tree.holders},
            tuple(leaf.value for leaf in able.values()),
            copied,
            tuple(note for note in notes if note),
        )

    def leaves(self) -> Iterator[Leaf]:
        """Tensors, as they are now; numbers that a function counts in are its own."""
        lent = {id(t) for t in self.tensors}
        left_out = self.objects.keys() - lent
        for name, value in self.named.items():
            for leaf in leaves(value, name):
                if isinstance(leaf.value, torch.Tensor) and id(leaf.value) not in left_out:
                    yield leaf

    @contextlib.contextmanager
    def with_own(self, copies: Mapping[int, torch.Tensor]) -> Iterator[None]:
        """Each tensor with the memory of its copy, which is found by its `id`."""
        contents = _contents(self.objects.values())
        generators = [(g, g.get_state()) for g in self.objects.values() if isinstance(g, torch.Generator)]
        written = [(a, a.copy()) for a in self.objects.values() if arrays.is_array(a) and a.flags.writeable]
        with torch_api.modes_off():
            own = [(t, t.data, t.grad) for t in self.tensors]
        try:
            with torch_api.modes_off():
                for tensor in self.tensors:
                    tensor.grad = None
                    if id(tensor) in self.copied:
                        tensor.data = copies[id(tensor)].detach()
            yield
        finally:
            with torch_api.modes_off():
                for tensor, data, grad in own:
                    if not tensor.is_leaf:  # something that asks for gradients was written to it
                        with contextlib.suppress(RuntimeError):  # where it is a view
                            tensor.detach_()
                    tensor.grad = None  # of another dtype, it may be
                    tensor.data = data
                    tensor.grad = grad
            for generator, state in generators:
                generator.set_state(state)
            for array, content in written:
                array[...] = content
            for container, before in contents:
                _restore(container, before)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a copy can be made of its memory alone."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def _can_be_lent(tensor: torch.Tensor) -> bool:
    return is_plain(tensor) and tensor.is_leaf and not tensor.is_inference()


def _note(paths: list[str], what: str) -> str:
    named = ", ".join(paths[:_MOST_NAMED]) + (f" and {len(paths) - _MOST_NAMED} more" if paths[_MOST_NAMED:] else "")
    return f"closed over and used as it is, {what}: {named}" if paths else ""


def _that_fit(able: Mapping[int, Leaf]) -> frozenset[int]:
    """All; else parameters and what asks for gradients; else nothing."""
    trained = [leaf for leaf in able.values() if leaf.is_parameter or leaf.value.requires_grad]
    for some in (list(able.values()), trained):
        if room_to_compare([leaf.value for leaf in some]):
            return frozenset(id(leaf.value) for leaf in some)
    return frozenset()


def _contents(objects: Collection[Any]) -> list[tuple[Any, list[Any]]]:
    """Of attributes, and of all containers that stand in them, however deep: a list may not hold its tensors yet."""
    found: dict[int, tuple[Any, list[Any]]] = {}
    todo: list[Any] = [attributes_of(o) for o in objects if not isinstance(o, (torch.Tensor, torch.Generator))]
    todo += [o for o in objects if type(o) in _RESTORED]
    while todo:
        container = todo.pop()
        if id(container) not in found:
            before = list(container.items() if type(container) in _DICTS else container)
            found[id(container)] = container, before
            held = container.values() if type(container) in _DICTS else container
            todo += [value for value in held if type(value) in _RESTORED]
    return list(found.values())


def _restore(container: Any, before: list[Any]) -> None:
    now = list(container.items() if type(container) in _DICTS else container)
    if len(now) == len(before) and all(map(_same, now, before)):
        return  # nobody need guard on it anew
    container.clear()
    if type(container) in (list, deque):
        container.extend(before)
    else:
        container.update(before)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other) == 2:
        return one is other or (one[0] is other[0] and one[1] is other[1])
    return one is other
