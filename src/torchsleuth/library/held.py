"""What values hold: the parts of containers and objects, and the tensors among them, by paths that a reader can follow.

torch's own pytree knows neither modules nor plain objects, and gives up at a container that nobody registered.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from torchsleuth.referee import arrays
from torchsleuth.referee.structure import attributes_of, parts_of_module, readable_key, slots_of

_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)
_NUMBERS = (bool, int, float, complex)
_ATOMS = (type, types.FunctionType, types.BuiltinFunctionType, Enum, str, bytes, *_NUMBERS)
# torch's machinery is no user's container: its graphs, compilers and operators hold what nobody means to hand over.
_MACHINERY = ("torch._", "torch.fx")


@dataclass(frozen=True)
class Leaf:
    path: str
    value: Any  # a tensor, a number or None
    is_parameter: bool = False  # of a module


@dataclass(frozen=True)
class Tree:
    """All that can be reached from some values, by `id`."""

    objects: Mapping[int, Any]
    holders: frozenset[int]  # those from which a tensor, an array, a module or a generator can be reached, and these

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [v for v in self.objects.values() if isinstance(v, torch.Tensor)]


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container or object holds, each with what a path goes on with."""
    if isinstance(value, (torch.Tensor, torch.Generator)):
        return
    if isinstance(value, torch.nn.Module):
        yield from ((f".{name}", part) for name, part in parts_of_module(value))
    elif isinstance(value, Mapping):
        for i, (key, part) in enumerate(value.items()):
            # An object's text may hold its address: paths are compared from run to run.
            yield (f"[{key!r}]" if readable_key(key) else f"[key {i}]"), part
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", part) for name, part in zip(value._fields, value, strict=True))
    elif isinstance(value, (*_LISTS, *_SETS)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif not (_is_atom(value) or isinstance(value, types.ModuleType) or type(value).__module__.startswith(_MACHINERY)):
        yield from ((f".{name}", part) for name, part in (*attributes_of(value).items(), *slots_of(value)))


def explored(values: Iterable[Any]) -> Tree:
    objects: dict[int, Any] = {}
    owners: dict[int, list[int]] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if id(value) in objects or _is_atom(value):
            continue
        objects[id(value)] = value
        for _, part in list(parts(value)):
            owners.setdefault(id(part), []).append(id(value))
            todo.append(part)
    seeds = (torch.Tensor, torch.nn.Module, torch.Generator)
    holders: set[int] = set()
    reached = [place for place, value in objects.items() if isinstance(value, seeds) or arrays.is_array(value)]
    while reached:
        place = reached.pop()
        if place not in holders:
            holders.add(place)
            reached += owners.get(place, ())
    return Tree(objects, frozenset(holders))


def leaves(value: Any, path: str) -> Iterator[Leaf]:
    """Tensors in all that a value holds, and numbers in its containers: an object's own may count calls or seconds."""
    yield from _leaves(value, path, set(), numbers=True, of_module=False)


def _leaves(value: Any, path: str, seen: set[int], *, numbers: bool, of_module: bool) -> Iterator[Leaf]:
    if isinstance(value, torch.Tensor):
        yield Leaf(path, value, of_module and isinstance(value, torch.nn.Parameter))
    elif value is None or isinstance(value, _NUMBERS):
        if numbers:
            yield Leaf(path, value)
    elif id(value) not in seen and not isinstance(value, _SETS):  # nothing in a set has a place
        seen.add(id(value))
        container = isinstance(value, (Mapping, *_LISTS)) or dataclasses.is_dataclass(value)
        module = isinstance(value, torch.nn.Module)
        for suffix, part in list(parts(value)):
            yield from _leaves(part, path + suffix, seen, numbers=numbers and container, of_module=module)
        if container:  # twice in a tree: compiled code may make two of what eager makes one of
            seen.discard(id(value))


def _is_atom(value: Any) -> bool:
    return value is None or isinstance(value, _ATOMS)
