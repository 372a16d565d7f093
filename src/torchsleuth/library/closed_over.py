"""What a function reaches that nobody hands it: closure cells, defaults, and the globals that its code names.

Functions that it calls by name are looked into, too, but not the globals of the standard library's and of installed
packages': what they reach is theirs.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from torchsleuth.library.held import explored

_STANDARD = sysconfig.get_paths()["stdlib"]
_INSTALLED = {"site-packages", "dist-packages"}


def closed_over(model: Any) -> dict[str, Any]:
    """By name: all from which a tensor or module can be reached."""
    found: dict[str, Any] = {}
    looked: set[int] = set()
    todo = list(_functions_of(model))
    while todo:
        function = todo.pop(0)
        if id(function) in looked:
            continue
        looked.add(id(function))
        for name, value in _reached(function):
            todo += _functions_of(value)
            if id(value) in looked or not explored([value]).holders:
                continue
            looked.add(id(value))
            found[name if name not in found else f"{name} (of {function.__qualname__})"] = value
    return found


def _functions_of(value: Any) -> Iterator[types.FunctionType]:
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, types.MethodType):
        yield from _functions_of(value.__func__)
    elif isinstance(value, functools.partial):
        yield from _functions_of(value.func)
    elif isinstance(value, torch.nn.Module):
        for module in value.modules():
            yield from _functions_of(type(module).forward)
    elif isinstance(call := inspect.getattr_static(type(value), "__call__", None), types.FunctionType):
        yield call


def _reached(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing is assigned to it yet
            continue
    given = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(given[len(given) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    if hasattr(function, "__wrapped__"):
        yield "__wrapped__", function.__wrapped__
    if not _is_of_others(code.co_filename):
        yield from _globals(function)


def _globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    loaded, attributes = set(), set()
    for step in _steps(function.__code__):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
    for name in sorted(loaded & function.__globals__.keys()):
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, types.ModuleType) and not _is_of_others(getattr(value, "__file__", None) or _STANDARD):
            for attribute in sorted(attributes & vars(value).keys()):
                yield f"{name}.{attribute}", vars(value)[attribute]


def _steps(code: types.CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):  # of functions that it defines
            yield from _steps(constant)


def _is_of_others(file: str) -> bool:
    return file.startswith(_STANDARD) or not _INSTALLED.isdisjoint(Path(file).parts)
