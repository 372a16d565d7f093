"""An object of the user's as an expression, with the statements that it needs."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from torchsleuth.case.carry_literals import literal
from torchsleuth.case.carry_names import read_by
from torchsleuth.case.carry_slice import Slicer
from torchsleuth.case.carry_text import CannotCarry, is_standard, is_users, parsed_file, text_of, user_modules

_Def = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class ObjectWriter:
    def __init__(self, slicer: Slicer) -> None:
        self._slicer = slicer
        self._written: dict[int, str] = {}
        self._entered: list[object] = []

    def expression(self, value: object) -> str:
        """An expression that is `value` after the slicer's source ran; raises CannotCarry."""
        if id(value) in self._written:
            return self._written[id(value)]
        if any(value is outer for outer in self._entered):
            raise CannotCarry(f"{type(value).__name__} holds itself")
        self._entered.append(value)  # also keeps it alive, so that its id stays its own
        self._written[id(value)] = text = self._expression(value)
        return text

    def _expression(self, value: object) -> str:
        plain = literal(value)
        if plain:
            self._slicer.need_literal_imports(plain.imports)
            return plain.text
        if isinstance(value, (tuple, list, dict)) and type(value) in (tuple, list, dict):
            return self._container(value)
        if not isinstance(value, type) and hasattr(value, "__torchsleuth_source__"):
            return self._own_source(value)
        if isinstance(value, functools.partial):
            self._slicer.need_import("functools", "import functools")
            arguments = [self.expression(a) for a in (value.func, *value.args)]
            arguments += [f"{name}={self.expression(a)}" for name, a in value.keywords.items()]
            return f"functools.partial({', '.join(arguments)})"
        if isinstance(value, MethodType):
            return f"{self.expression(value.__self__)}.{value.__func__.__name__}"
        if isinstance(value, ModuleType):
            return self._imported(value.__name__, "")
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value)

    def _container(self, value: tuple[object, ...] | list[object] | dict[object, object]) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.expression(k)}: {self.expression(v)}" for k, v in value.items()) + "}"
        inside = ", ".join(self.expression(v) for v in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"

    def _own_source(self, value: Any) -> str:
        source, expression = value.__torchsleuth_source__()
        if expression in self._slicer.names:
            raise CannotCarry(f"two objects bring a source of their own that defines {expression}")
        self._slicer.names.add(expression)
        self._slicer.extra.append(str(source).strip("\n"))
        return str(expression)

    def kernel(self, kernel: object, function: FunctionType) -> str:
        """A Triton kernel, whose Python function is `function`."""
        space = function.__globals__
        return self._global(kernel, space) or self._local_function(function, function, decorated=True)

    # --- definitions ----------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> str:
        inner = inspect.unwrap(function)  # `@torch.no_grad()` gives a function of torch's that wraps the user's
        if not isinstance(inner, FunctionType) or not is_users(inner.__globals__):
            return self._imported(str(function.__module__), function.__qualname__, function)
        space = inner.__globals__
        found = self._global(function, space) or self._method(function, space)
        return found or self._local_function(function, inner, decorated=inner is not function)

    def _class(self, cls: type) -> str:
        space = _class_globals(cls)
        if not is_users(space):
            return self._imported(cls.__module__, cls.__qualname__, cls)
        if "<locals>" in cls.__qualname__:
            return self._global(cls, space) or self._local_class(cls, space)
        self._slicer.need(self._slicer.part(space), (cls.__qualname__.partition(".")[0],))
        return cls.__qualname__

    def _global(self, value: object, space: Mapping[str, Any]) -> str | None:
        """The name under which the module itself holds `value`."""
        preferred = getattr(value, "__name__", "")
        names = [preferred] if space.get(preferred) is value else [n for n, v in space.items() if v is value]
        part = self._slicer.part(space)
        for name in names:
            # A notebook's own variables (`_`, `_12`) hold results too, but no statement binds them.
            if any(name in statement.binds for statement in part.text.statements):
                self._slicer.need(part, (name,))
                return name
        return None

    def _method(self, function: FunctionType, space: Mapping[str, Any]) -> str | None:
        holder, _, name = function.__qualname__.rpartition(".")
        if not holder or "<" in holder:
            return None
        value: Any = space.get(holder.partition(".")[0])
        for attribute in holder.split(".")[1:]:
            value = getattr(value, attribute, None)
        if not isinstance(value, type) or getattr(value, name, None) is not function:
            return None
        return f"{self._class(value)}.{name}"

    def _local_function(self, function: FunctionType, inner: FunctionType, *, decorated: bool) -> str:
        """A definition inside another function, a lambda, or what a decorator was given (`inner`)."""
        tree, lines = parsed_file(inner.__code__.co_filename)
        node = _find(tree, inner.__code__)
        if not decorated and not isinstance(node, ast.Lambda):
            node = _undecorated(node)
        captured = {
            name: value
            for name, value in _captured(inner, node).items()
            if value is not function and value is not inner
        }
        return self._local(node, text_of(node, lines), inner.__name__, inner.__globals__, captured)

    def _local_class(self, cls: type, space: Mapping[str, Any]) -> str:
        functions = [f for f in vars(cls).values() if isinstance(f, FunctionType)]
        if not functions:
            raise CannotCarry(f"the source of {cls.__qualname__} cannot be found")
        tree, lines = parsed_file(functions[0].__code__.co_filename)
        first = min(f.__code__.co_firstlineno for f in functions)
        named = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == cls.__name__]
        around = [n for n in named if n.lineno <= first <= (n.end_lineno or 0)]
        if not around:
            raise CannotCarry(f"the source of {cls.__qualname__} cannot be found")
        captured: dict[str, object] = {}
        for function in functions:
            captured |= _cells(function.__code__.co_freevars, function.__closure__ or ())
        captured = {name: value for name, value in captured.items() if value is not cls}
        return self._local(around[-1], text_of(around[-1], lines), cls.__name__, space, captured)

    def _local(
        self, node: _Def | ast.ClassDef, text: str, name: str, space: Mapping[str, Any], captured: dict[str, object]
    ) -> str:
        """Write a definition out of its function; what it captured becomes the arguments of a function around it."""
        part = self._slicer.part(space)
        reads = read_by(node, lazy_annotations=part.text.lazy_annotations)
        self._slicer.need_reads(part, [c for c in reads.now | reads.later if c[0] not in {*captured, name}])
        self._slicer.check_imports_inside(node, space)
        is_lambda = isinstance(node, ast.Lambda)
        values = {key: self.expression(value) for key, value in sorted(captured.items())}
        if is_lambda and not values:
            return f"({text})"
        outer = self._slicer.fresh("function" if is_lambda else name)
        if outer == name and not values:
            self._slicer.extra.append(text)
            return name
        body = f"return {text}" if is_lambda else f"{text}\nreturn {name}"
        maker = self._slicer.fresh(f"make_{outer}")
        self._slicer.extra.append(f"def {maker}({', '.join(values)}):\n{textwrap.indent(body, '    ')}")
        self._slicer.extra.append(f"{outer} = {maker}({', '.join(values.values())})")
        return outer

    # --- the rest -------------------------------------------------------------------------------------------------

    def _instance(self, value: Any) -> str:
        cls = type(value)
        if isinstance(value, BuiltinFunctionType):
            return self._imported(str(value.__module__), value.__name__, value)
        for space in (_class_globals(cls), *(vars(module) for module in user_modules())):
            if is_users(space) and any(v is value for v in space.values()) and (name := self._global(value, space)):
                return name
        if isinstance(value, (torch.Tensor, torch.nn.Module)) or not is_users(_class_globals(cls)):
            raise CannotCarry(f"an object of type {cls.__module__}.{cls.__qualname__} cannot be written as source")
        name = self._class(cls)
        if dataclasses.is_dataclass(cls) and all(f.init for f in dataclasses.fields(cls)):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(cls)}
            return f"{name}({', '.join(f'{key}={self.expression(v)}' for key, v in fields.items())})"
        if not hasattr(value, "__dict__"):
            raise CannotCarry(f"an object of type {cls.__qualname__} has slots and cannot be written as source")
        state = ", ".join(f"{key!r}: {self.expression(v)}" for key, v in vars(value).items())
        made = self._slicer.fresh(cls.__name__.lower())
        self._slicer.extra.append(f"{made} = object.__new__({name})")
        if state:
            self._slicer.extra.append(f"vars({made}).update({{{state}}})")
        return made

    def _imported(self, module: str, qualified: str, value: object = None) -> str:
        """What lives in an installed package, by import."""
        top = module.partition(".")[0]
        found: Any = sys.modules.get(module)
        for attribute in qualified.split(".") if qualified else ():
            found = getattr(found, attribute, None)
        if value is not None and found is not value:
            raise CannotCarry(f"{module}.{qualified} is not where it says it is")
        if not (is_standard(top) or top in self._slicer.alone):
            self._slicer.reasons.append(f"it needs the package {top}")
        if module == "builtins":
            return qualified
        self._slicer.need_import(module, f"import {module}")
        return f"{module}.{qualified}" if qualified else module


def _class_globals(cls: type) -> Mapping[str, Any]:
    """The globals of the module that defines a class, also where that module is no longer registered (runpy)."""
    for member in vars(cls).values():
        if isinstance(member, FunctionType) and member.__globals__.get("__name__") == cls.__module__:
            return member.__globals__
    module = sys.modules.get(cls.__module__)
    return vars(module) if module else {}


def _find(tree: ast.Module, code: CodeType) -> _Def:
    """The definition that `code` was compiled from."""
    found = [node for node in ast.walk(tree) if isinstance(node, _Def) and _may_be(node, code)]
    if len(found) > 1:
        found = [node for node in found if isinstance(node, ast.Lambda) and _is_body(node.body, code)]
    if len(found) != 1:
        place = f"{code.co_filename}:{code.co_firstlineno}"
        raise CannotCarry(f"the source of {code.co_name} at {place} cannot be told apart")
    return found[0]


def _may_be(node: _Def, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    return node.name == code.co_name and code.co_firstlineno == min([node, *node.decorator_list], key=_line).lineno


def _line(node: ast.stmt | ast.expr) -> int:
    return node.lineno


def _is_body(body: ast.expr, code: CodeType) -> bool:
    """Whether the instructions come from exactly this expression; Python says where only from 3.11 on."""
    whole = ((body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset))
    positions: Iterable[tuple[Any, ...]] = getattr(code, "co_positions", tuple)()
    spans = [((line, column), (end, end_column)) for line, end, column, end_column in positions if end_column]
    return whole in spans and all(whole[0] <= start and stop <= whole[1] for start, stop in spans)


def _undecorated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
    bare = type(node)(**dict(ast.iter_fields(node)))
    bare.decorator_list = []
    return ast.copy_location(bare, node)


def _captured(function: FunctionType, node: _Def) -> dict[str, object]:
    """Values from the functions around it: closure cells, and defaults that name a variable there (`i=i`)."""
    captured = _cells(function.__code__.co_freevars, function.__closure__ or ())
    arguments = [*node.args.posonlyargs, *node.args.args]
    live = function.__defaults__ or ()
    pairs = list(zip(node.args.defaults, live, strict=False)) if arguments else []
    keyword = function.__kwdefaults__ or {}
    pairs += [
        (default, keyword[argument.arg])
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None and argument.arg in keyword
    ]
    for default, value in pairs:
        if isinstance(default, ast.Name) and function.__globals__.get(default.id) is not value:
            captured[default.id] = value
    return captured


def _cells(names: Iterable[str], cells: Iterable[CellType]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError as error:
            raise CannotCarry(f"the captured variable {name} has no value yet") from error
    return found
