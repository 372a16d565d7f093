"""The plain values that a frame was called with, by the expression that a guard names them with.

Nothing of the user's runs: numbers and sizes are read from plain tensors, builtin containers and instance dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch

_MOST = 200
_LONGEST = 60
_PLAIN = (bool, int, float, str, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def values_of(local: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in list(local.items()):
        for expression, shown in islice(_of(name, value, depth=2), _MOST - len(found)):
            found[expression] = shown
    return found


def _of(expression: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    kind = type(value)
    if kind in _PLAIN:
        shown = repr(value)
        if len(shown) <= _LONGEST:
            yield expression, shown
    elif kind in _TENSORS:
        for i, size in enumerate(value.shape):
            yield f"{expression}.size()[{i}]", str(size)
        yield f"{expression}.dtype", str(value.dtype)
        yield f"{expression}.requires_grad", str(value.requires_grad)
    elif depth <= 0:
        return
    elif kind in (list, tuple):
        yield f"len({expression})", str(len(value))
        for i, item in enumerate(value[:20]):
            yield from _of(f"{expression}[{i}]", item, depth - 1)
    elif kind is dict:
        yield f"len({expression})", str(len(value))
        for key, item in islice(value.items(), 20):
            if type(key) in (str, int):
                yield from _of(f"{expression}[{key!r}]", item, depth - 1)
    else:
        for name, item in islice(_attributes(value).items(), 60):
            if type(item) in _PLAIN:
                yield from _of(f"{expression}.{name}", item, 0)


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}
