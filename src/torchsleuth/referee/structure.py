"""What a value consists of: tensors, plain values and objects, each with the path by which a reader finds it.

`walk` is the one traversal that comparisons use.  It drops nothing: what it cannot look into is yielded as OPAQUE.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import types
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from torchsleuth.referee import arrays
from torchsleuth.referee.plain_values import is_plain_value

_DEEPEST = 200  # levels of nesting: far below Python's limit of recursion
_SEQUENCES = (list, tuple, collections.deque, KeysView, ValuesView, ItemsView, collections.UserList)
_SETS = (set, frozenset)
# Types written in C whose whole content `parts_of` yields; any other may hold more than Python shows.
_KNOWN_C_TYPES = frozenset({
    object, dict, list, tuple, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict,
    BaseException, str, bytes, int, float, complex,
})  # fmt: skip
_IS_HEAP_TYPE = 1 << 9  # in `type.__flags__`: the class was made by a `class` statement
# Types of torch's own machinery (graphs, compilers, operators) hold what no user means to return.
_MACHINERY = ("torch._", "torch.fx")
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module())) - {"training"}
_MARKS_OF_TORCH = ("_torchdynamo", "_is_torch_compile", "_compiled_call_impl", "__wrapped__")


class Sort(Enum):
    TENSOR = "tensor"
    VALUE = "value"  # compared by ==
    HOLDER = "holder"  # its parts follow
    REPEATED = "repeated"  # a cycle: an object that this one is inside of
    OPAQUE = "opaque"  # cannot be looked into


@dataclass(frozen=True)
class Item:
    path: str
    sort: Sort
    value: Any  # of REPEATED the path where it was met first; of OPAQUE the reason, or ""
    kind: str = ""  # the type, as a reader writes it
    is_empty: bool = False  # a HOLDER without parts
    identity: int = 0  # of OPAQUE, the `id` of the object


def walk(value: Any, path: str) -> Iterator[Item]:
    """Yield every tensor and plain value in `value`, and every object on the way to them."""
    yield from _walk(value, path, {})


def kind_of(value: Any) -> str:
    """The name of its type: Normal, SimpleNamespace.  Iterators share one: Dynamo makes another type than eager."""
    if isinstance(value, Iterator) and not attributes_of(value):
        return "iterator"
    return type(value).__qualname__.rpartition("<locals>.")[2]


def readable_key(key: object) -> bool:
    """Whether the text of a key is the same in every run: that of an object may hold its address."""
    if isinstance(key, tuple):
        return all(map(readable_key, key))
    return key is None or isinstance(key, (str, bytes, Enum, bool, int, float, complex))


def attributes_of(value: Any) -> dict[str, Any]:
    """Its `__dict__`, without running code of its class."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items() if kind.__flags__ & _IS_HEAP_TYPE else ():
            if isinstance(slot, types.MemberDescriptorType) and hasattr(value, name):
                yield name, getattr(value, name)


def parts_of_module(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """What it has of its own; of one that torch.compile returned, what the module inside it has."""
    inner = module._modules.get("_orig_mod")
    module = module if inner is None else inner
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)
    yield from module.named_children()
    yield from ((name, value) for name, value in vars(module).items() if not _set_by_torch(name))


def _set_by_torch(name: str) -> bool:
    return name in _OF_EVERY_MODULE or name.startswith(_MARKS_OF_TORCH)


def _walk(value: Any, path: str, inside: dict[int, str]) -> Iterator[Item]:
    if isinstance(value, torch.Tensor):
        yield Item(path, Sort.TENSOR, value)
        if type(value) in (torch.Tensor, torch.nn.Parameter):  # a subclass keeps what it wraps in attributes
            # Only tensors: torch marks some (nn.Buffer.persistent), and a copy of an input need not have the mark.
            parts_of = [(f".{name}", part) for name, part in vars(value).items() if isinstance(part, torch.Tensor)]
            yield from _walk_parts(value, path, parts_of, inside)
        return
    if is_plain_value(value):
        yield Item(path, Sort.VALUE, value, kind_of(value))
        if not isinstance(value, (Enum, type, types.ModuleType)) and attributes_of(value):
            yield from _walk_parts(value, path, _attributes(value), inside)
        return
    kind = kind_of(value)
    if arrays.is_array(value):
        yield from _walk_array(value, path, inside)
        return
    if id(value) in inside:
        yield Item(path, Sort.REPEATED, inside[id(value)], kind)
        return
    if len(inside) >= _DEEPEST:
        yield Item(path, Sort.OPAQUE, f"nested deeper than {_DEEPEST} levels", kind, identity=id(value))
        return
    try:
        parts = list(_parts_of(value))
    except Exception as error:  # the class's own code runs here (properties, iteration) and may raise anything
        reason = f"reading it raised {type(error).__name__}"
        yield Item(path, Sort.OPAQUE, reason, kind, identity=id(value))
        return
    if _hides_state(value):
        yield Item(path, Sort.OPAQUE, "", kind, identity=id(value))
    else:
        yield Item(path, Sort.HOLDER, None, _named(value), is_empty=not parts)
    yield from _walk_parts(value, path, parts, inside)


def _walk_array(value: Any, path: str, inside: dict[int, str]) -> Iterator[Item]:
    kind = arrays.kind_of_array(value)
    if (tensor := arrays.as_tensor(value)) is not None:
        yield Item(path, Sort.TENSOR, tensor, kind)
    elif (found := arrays.elements(value)) is not None:
        yield Item(path, Sort.HOLDER, None, kind, is_empty=not found)
        yield from _walk_parts(value, path, found, inside)
    else:
        yield Item(path, Sort.OPAQUE, "", kind, identity=id(value))


def _walk_parts(value: Any, path: str, parts: list[tuple[str, Any]], inside: dict[int, str]) -> Iterator[Item]:
    inside[id(value)] = path
    for suffix, part in parts:
        yield from _walk(part, path + suffix, inside)
    del inside[id(value)]


def _named(value: Any) -> str:
    """The type, and of a function its name: two functions differ although their type does not."""
    if isinstance(value, types.FunctionType):
        return f"function {value.__code__.co_name}"
    if isinstance(value, types.MethodType):
        return f"method {value.__func__.__name__}"
    return kind_of(value)


def _hides_state(value: Any) -> bool:
    """Whether it may hold more than its parts: generators, iterators, locks and other types written in C."""
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial, slice, torch.Generator)):
        return False
    if isinstance(value, torch.nn.Module):
        return False
    if type(value).__module__.startswith(_MACHINERY):
        return True
    if isinstance(value, (Mapping, *_SEQUENCES, *_SETS)):
        return False
    return any(not kind.__flags__ & _IS_HEAP_TYPE and kind not in _KNOWN_C_TYPES for kind in type(value).__mro__)


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.nn.Module):
        yield from ((f".{name}", part) for name, part in parts_of_module(value))
    elif isinstance(value, torch.distributions.Distribution):
        yield from _of_distribution(value)
    elif isinstance(value, torch.Generator):
        yield ".get_state()", value.get_state()
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif isinstance(value, slice):
        yield from ((f".{name}", getattr(value, name)) for name in ("start", "stop", "step"))
    elif not type(value).__module__.startswith(_MACHINERY) or isinstance(value, (Mapping, *_SEQUENCES)):
        yield from _of_container(value)
        if isinstance(value, BaseException):
            yield ".args", value.args
        yield from _attributes(value)


def _of_container(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for i, (key, part) in enumerate(value.items()):
            if not readable_key(key):
                yield f".keys()[{i}]", key
            yield (f"[{key!r}]" if readable_key(key) else f"[key {i}]"), part
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", part) for name, part in zip(value._fields, value, strict=True))
    elif isinstance(value, _SEQUENCES):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, _SETS):
        yield from ((f"[element {i}]", part) for i, part in enumerate(_in_order(value)))


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Of an object; of a container those that are not its elements once more, as a ModelOutput has them."""
    named = [(n, part) for n, part in (*attributes_of(value).items(), *slots_of(value)) if not _set_by_torch(n)]
    if isinstance(value, Mapping) and dataclasses.is_dataclass(value):
        fields = {field.name for field in dataclasses.fields(value)}
        named = [(name, part) for name, part in named if name not in fields]
    if isinstance(value, (collections.UserDict, collections.UserList)):
        named = [(name, part) for name, part in named if name != "data"]
    return [(f".{name}", part) for name, part in named]


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What it closes over; what it computes when it is called is not known."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".closure[{name!r}]", cell.cell_contents
        except ValueError:  # nothing is assigned to it yet
            continue
    yield from ((f".__defaults__[{i}]", part) for i, part in enumerate(function.__defaults__ or ()))
    yield from ((f".__kwdefaults__[{name!r}]", part) for name, part in (function.__kwdefaults__ or {}).items())
    yield from ((f".{name}", part) for name, part in vars(function).items() if not _set_by_torch(name))


def _of_distribution(value: torch.distributions.Distribution) -> Iterator[tuple[str, Any]]:
    """Its parameters, and the distributions and transforms it is made of; other attributes are caches of these."""
    constraints = value.arg_constraints
    names = list(constraints) if isinstance(constraints, Mapping) else []
    for name in names:
        yield f".{name}", getattr(value, name)
    for name, part in attributes_of(value).items():
        inner = part[0] if isinstance(part, (list, tuple)) and part else part
        made_of = isinstance(inner, (torch.distributions.Distribution, torch.distributions.Transform))
        if made_of or name in ("_batch_shape", "_event_shape", "reinterpreted_batch_ndims"):
            yield f".{name.lstrip('_')}", part


def _in_order(value: Any) -> list[Any]:
    """The elements of a set in an order that follows from what they hold, not from where they are in memory."""
    return sorted(value, key=_place_in_order)


def _place_in_order(element: Any) -> list[tuple[str, str, float]]:
    return [_place_of_item(item) for item in walk(element, "")]


def _place_of_item(item: Item) -> tuple[str, str, float]:
    """A path, a text and a number: of numbers that rounding moves, the text says nothing."""
    if item.sort is Sort.TENSOR:
        return item.path, f"{item.value.dtype}{list(item.value.shape)}", _projection(item.value)
    if item.sort is Sort.VALUE and isinstance(item.value, float):
        return item.path, item.kind, item.value if math.isfinite(item.value) else 0.0
    if item.sort is Sort.VALUE and isinstance(item.value, int):
        return item.path, item.kind, float(max(-(2**60), min(item.value, 2**60)))
    text = repr(item.value) if item.sort is Sort.VALUE and readable_key(item.value) else ""
    return item.path, f"{item.kind} {text}", 0.0


def _projection(tensor: torch.Tensor) -> float:
    """One number that two tensors hardly share; close for tensors that differ by rounding."""
    if tensor.is_nested or tensor.is_meta or tensor.is_quantized:
        return 0.0
    flat = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    wide = flat.abs() if flat.is_complex() else flat
    wide = wide.to(torch.float64).reshape(-1).nan_to_num()
    weights = torch.linspace(0.5, 1.5, wide.numel(), dtype=torch.float64, device=wide.device)
    return float((wide * weights).sum())
