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

_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)
_NUMBERS = (bool, int, float, complex)
_ATOMS = (type, types.FunctionType, types.BuiltinFunctionType, Enum, str, bytes, *_NUMBERS)
_READABLE = (str, bytes, Enum, *_NUMBERS)
# torch's machinery is no user's container: its graphs, compilers and operators hold what nobody means to hand over.
_MACHINERY = ("torch._", "torch.fx")
_OF_ANY_MODULE = frozenset(vars(torch.nn.Module()))


@dataclass(frozen=True)
class Leaf:
    path: str
    value: Any  # a tensor, a number or None
    is_parameter: bool = False  # of a module


@dataclass(frozen=True)
class Tree:
    """All that can be reached from some values, by `id`."""

    objects: Mapping[int, Any]
    holders: frozenset[int]  # those from which a tensor, a module or a generator can be reached, and these

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [v for v in self.objects.values() if isinstance(v, torch.Tensor)]


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container or object holds, each with what a path goes on with."""
    if isinstance(value, (torch.Tensor, torch.Generator)):
        return
    if isinstance(value, torch.nn.Module):
        yield from ((f".{name}", part) for name, part in _of_module(value))
    elif isinstance(value, Mapping):
        for i, (key, part) in enumerate(value.items()):
            # An object's text may hold its address: paths are compared from run to run.
            yield (f"[{key!r}]" if _readable(key) else f"[key {i}]"), part
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", part) for name, part in zip(value._fields, value, strict=True))
    elif isinstance(value, (*_LISTS, *_SETS)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif not (_is_atom(value) or isinstance(value, types.ModuleType) or type(value).__module__.startswith(_MACHINERY)):
        yield from ((f".{name}", part) for name, part in _attributes(value))


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
    reached = [place for place, value in objects.items() if isinstance(value, seeds)]
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


def _of_module(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)
    yield from module.named_children()
    yield from ((name, value) for name, value in vars(module).items() if name not in _OF_ANY_MODULE)


def attributes_of(value: Any) -> dict[str, Any]:
    """Its `__dict__`, whatever its class does to find attributes."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from attributes_of(value).items()
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType) and hasattr(value, name):
                yield name, getattr(value, name)


def _is_atom(value: Any) -> bool:
    return value is None or isinstance(value, _ATOMS)


def _readable(key: object) -> bool:
    return key is None or isinstance(key, _READABLE) or (isinstance(key, tuple) and all(map(_readable, key)))
