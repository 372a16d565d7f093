"""A program of several files as one: its own modules in the place of their imports.

A script for somebody else must not need files that only its author has.  All modules come to share one set of names, so
it is not done where two of them mean different things by one, where a module is used for more than its attributes, or
where an attribute's name is a local variable there.  Whether what comes of it is still the same program, a Judge says.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_MOST_MODULES = 30
_MOST_TEXT = 200_000  # characters
_NOBODYS = {"torchsleuth"}  # it may stand beside the program, and is not the program's


class _CannotJoin(Exception):
    """Said nowhere: the script then imports its modules as before."""


def joined(text: str, folders: Sequence[Path]) -> str | None:
    """The script without imports of modules that stand in `folders`; None where it has none, or cannot do without."""
    joiner = _Joiner(folders)
    try:
        body = joiner.body_of(ast.parse(text), package="", owner="")
    except (_CannotJoin, OSError, ValueError, SyntaxError, RecursionError):
        return None
    if not joiner.modules:
        return None
    first = [s for s in body[:1] if _is_docstring(s)]  # nothing else may stand before `from __future__ import`
    found = ast.unparse(ast.Module([*first, *joiner.future, *_each_import_once(body[len(first) :])], []))
    return found if len(found) < _MOST_TEXT else None


@dataclass
class _Joiner:
    folders: Sequence[Path]
    modules: list[str] = field(default_factory=list)  # whose statements stand in the script by now
    future: list[ast.stmt] = field(default_factory=list)
    meanings: dict[str, str] = field(default_factory=dict)  # global name -> what gave it

    def body_of(self, tree: ast.Module, package: str, owner: str) -> list[ast.stmt]:
        """The statements of a file, those of the modules that it imports before them."""
        attributes: dict[str, str] = {}  # what a module is called here -> the module
        body: list[tuple[bool, ast.stmt]] = []  # whether it is this file's own
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                if ast.unparse(statement) not in map(ast.unparse, self.future):
                    self.future.append(statement)
            elif isinstance(statement, ast.Import):
                body += self._import(statement, attributes)
            elif isinstance(statement, ast.ImportFrom):
                body += self._import_from(statement, package, attributes)
            elif not (owner and (_is_main(statement) or _is_docstring(statement))):
                body.append((True, statement))
        rename = _Attributes(attributes, {name for own, s in body if own for name in _locals(s)})
        found: list[ast.stmt] = [rename.visit(s) if own and attributes else s for own, s in body]
        for own, statement in body:
            if own:
                self._mean(statement, owner)
        return found

    def _import(self, statement: ast.Import, attributes: dict[str, str]) -> list[tuple[bool, ast.stmt]]:
        found: list[tuple[bool, ast.stmt]] = []
        for alias in statement.names:
            file = self._file_of(alias.name)
            if file is None:
                found.append((True, ast.Import([alias])))
            elif "." in alias.name and alias.asname is None:
                raise _CannotJoin(alias.name)  # a chain of attributes
            else:
                found += self._module(alias.name, file)
                attributes[alias.asname or alias.name] = alias.name
        return found

    def _import_from(
        self, statement: ast.ImportFrom, package: str, attributes: dict[str, str]
    ) -> list[tuple[bool, ast.stmt]]:
        name = statement.module or ""
        if statement.level:
            parts = package.split(".") if package else []
            if statement.level - 1 >= len(parts) or not parts:
                raise _CannotJoin(name)
            name = ".".join([*parts[: len(parts) - statement.level + 1], *([name] if name else [])])
        file = self._file_of(name)
        if file is None:
            if statement.level:
                raise _CannotJoin(name)
            return [(True, statement)]
        found = self._module(name, file)
        for alias in statement.names:
            inner = self._file_of(f"{name}.{alias.name}")
            if inner is not None:
                found += self._module(f"{name}.{alias.name}", inner)
                attributes[alias.asname or alias.name] = f"{name}.{alias.name}"
            elif alias.asname not in (None, alias.name):
                found.append((True, ast.parse(f"{alias.asname} = {alias.name}").body[0]))
        return found

    def _module(self, name: str, file: Path) -> list[tuple[bool, ast.stmt]]:
        if name in self.modules:
            return []
        self.modules.append(name)  # now, so that modules which import each other come to an end
        if len(self.modules) > _MOST_MODULES:
            raise _CannotJoin(name)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        text = file.read_text(encoding="utf-8")
        if len(text) > _MOST_TEXT:
            raise _CannotJoin(name)
        return [(False, statement) for statement in self.body_of(ast.parse(text), package, name)]

    def _file_of(self, name: str) -> Path | None:
        if not name or name.partition(".")[0] in _NOBODYS:
            return None
        for folder in self.folders:
            place = folder.joinpath(*name.split("."))
            for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                if file.is_file():
                    return file
        return None

    def _mean(self, statement: ast.stmt, owner: str) -> None:
        imports = isinstance(statement, (ast.Import, ast.ImportFrom))
        meaning = ast.unparse(statement) if imports else f"of {owner or 'the script'}"
        for name in _bound(statement):
            # One file's own `sum` is not what another calls so.
            if self.meanings.setdefault(name, meaning) != meaning or (owner and hasattr(builtins, name)):
                raise _CannotJoin(name)


def _each_import_once(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    seen: set[str] = set()
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            text = ast.unparse(statement)
            if text in seen:
                continue
            seen.add(text)
        yield statement


class _Attributes(ast.NodeTransformer):
    """`kernels.blend` as `blend`."""

    def __init__(self, modules: dict[str, str], local: set[str]) -> None:
        self._modules = modules
        self._local = local

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not (isinstance(node.value, ast.Name) and node.value.id in self._modules):
            return self.generic_visit(node)
        if node.attr in self._local or not isinstance(node.ctx, ast.Load):
            raise _CannotJoin(node.attr)
        return ast.copy_location(ast.Name(node.attr, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._modules:
            raise _CannotJoin(node.id)  # handed on, or asked for a name that is worked out
        return node


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Global names that a statement of a file gives a meaning, those under `if`, `try`, `with` and `for` too."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
        return
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.stmt):
            yield from _bound(node)
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            for inner in node.body:
                yield from _bound(inner)
        else:
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _locals(statement: ast.stmt) -> set[str]:
    """Names that mean something else somewhere inside functions."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
