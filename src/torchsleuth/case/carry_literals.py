"""Values that are their own source: constants, containers of them, and a few of torch's and the library's."""

from __future__ import annotations

import argparse
import math
import types
from dataclasses import dataclass

import torch

_LONGEST = 4000  # more is data, not code


@dataclass(frozen=True)
class Literal:
    text: str
    imports: frozenset[str] = frozenset()


def literal(value: object, *, mutable: bool = True) -> Literal | None:
    """An expression for `value`, or None; without `mutable` only for what cannot change after it was made."""
    found = _literal(value, mutable)
    return found if found and len(found.text) <= _LONGEST else None


def _literal(value: object, mutable: bool) -> Literal | None:
    if value is None or value is Ellipsis or type(value) in (bool, int, str, bytes):
        return Literal("..." if value is Ellipsis else repr(value))
    if type(value) is float:
        return Literal(repr(value) if math.isfinite(value) else f'float("{value!r}")')
    if type(value) is complex:
        return Literal(repr(value)) if math.isfinite(abs(value)) else None
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return Literal(str(value), frozenset(("torch",)))
    if isinstance(value, torch.device):
        return Literal(f"torch.{value!r}", frozenset(("torch",)))
    if isinstance(value, torch.Size):
        return Literal(repr(value), frozenset(("torch",)))
    # Flags that the program read from its command line: few write to them again.
    if type(value) in (argparse.Namespace, types.SimpleNamespace):
        return _call(f"{type(value).__module__}.{type(value).__name__}", vars(value), type(value).__module__)
    if type(value) is tuple:
        return _join(value, "(", ",)" if len(value) == 1 else ")", mutable)
    if type(value) is list and mutable:
        return _join(tuple(value), "[", "]", mutable)
    if type(value) in (set, frozenset) and value and mutable:
        return _join(tuple(sorted(value, key=repr)), "{", "}", mutable)  # type: ignore[call-overload]
    if type(value) is dict and mutable:
        return _pairs(value)
    return None


def _join(values: tuple[object, ...], opening: str, closing: str, mutable: bool) -> Literal | None:
    parts = [_literal(value, mutable) for value in values]
    known = [part for part in parts if part]
    if len(known) != len(parts):
        return None
    return Literal(f"{opening}{', '.join(p.text for p in known)}{closing}", _imports(known))


def _pairs(values: dict[object, object]) -> Literal | None:
    keys, items = _join(tuple(values), "", "", True), _join(tuple(values.values()), "", "", True)
    if keys is None or items is None:
        return None
    pairs = [(_literal(k, True), _literal(v, True)) for k, v in values.items()]
    text = ", ".join(f"{k.text}: {v.text}" for k, v in pairs if k and v)
    return Literal(f"{{{text}}}", keys.imports | items.imports)


def _call(function: str, arguments: dict[str, object], module: str) -> Literal | None:
    parts = {name: _literal(value, True) for name, value in arguments.items()}
    known = {name: part for name, part in parts.items() if part and name.isidentifier()}
    if len(known) != len(parts):
        return None
    text = ", ".join(f"{name}={part.text}" for name, part in known.items())
    return Literal(f"{function}({text})", _imports(list(known.values())) | {module})


def _imports(parts: list[Literal]) -> frozenset[str]:
    return frozenset[str]().union(*(part.imports for part in parts))
