"""Cases to and from JSON, checked field by field: a folder that somebody sent may hold anything."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from torchsleuth.errors import DamagedCase


def encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    return value


def decode(kind: Any, data: Any, place: str = "case") -> Any:
    """`data` as an instance of `kind`; raises DamagedCase with the place that does not fit."""
    if kind is Any:
        return data
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, data, place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError:
            raise _damaged(place, data, kind.__name__) from None
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, data, place)
    if origin is tuple:
        if not isinstance(data, list):
            raise _damaged(place, data, "a list")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(decode(arguments[0], v, f"{place}[{i}]") for i, v in enumerate(data))
        if len(arguments) != len(data):
            raise _damaged(place, data, f"a list of {len(arguments)}")
        return tuple(decode(a, v, f"{place}[{i}]") for i, (a, v) in enumerate(zip(arguments, data, strict=True)))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _damaged(place, data, "an object")
        return {str(k): decode(arguments[1], v, f"{place}.{k}") for k, v in data.items()}
    if kind is type(None):
        if data is not None:
            raise _damaged(place, data, "null")
        return None
    if kind is float and type(data) is int:
        try:
            return float(data)
        except OverflowError:
            raise _damaged(place, data, "a number") from None
    if type(data) is not kind:
        raise _damaged(place, data, getattr(kind, "__name__", str(kind)))
    return data


def _decode_dataclass(kind: type, data: Any, place: str) -> Any:
    if not isinstance(data, dict):
        raise _damaged(place, data, "an object")
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = decode(hints[field.name], data[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DamagedCase(f"{place}.{field.name} is missing. Take a fresh capture.")
    return kind(**values)


def _decode_union(arguments: tuple[Any, ...], data: Any, place: str) -> Any:
    """The first alternative that fits; numbers stay what they are (an int is not made a float)."""
    plain = [a for a in arguments if a is type(data)]
    for option in (*plain, *arguments):
        if option is float and type(data) is int and int in arguments:
            continue
        try:
            return decode(option, data, place)
        except DamagedCase:
            continue
    raise _damaged(place, data, " or ".join(getattr(a, "__name__", str(a)) for a in arguments))


def _damaged(place: str, data: Any, wanted: str) -> DamagedCase:
    return DamagedCase(f"{place} is {str(data)[:60]!r} where {wanted} should be. Take a fresh capture.")
