"""A module as its top-level statements: what each binds, changes and reads, and the text to copy it by."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torchsleuth.case.carry_names import COMPOUND, Reads, bound_by, changed_by, read_by


class CannotCarry(Exception):
    """Why a piece of the user's code cannot be copied; never leaves `carry`."""


@dataclass(frozen=True)
class Statement:
    index: int
    node: ast.stmt
    text: str
    binds: frozenset[str]
    changes: frozenset[str]
    reads: Reads

    @property
    def conditional(self) -> bool:
        return isinstance(self.node, COMPOUND)


@dataclass(frozen=True, eq=False)
class ModuleText:
    """The source of a module beside its living namespace."""

    namespace: Mapping[str, Any]
    statements: tuple[Statement, ...]
    lazy_annotations: bool

    @property
    def name(self) -> str:
        return str(self.namespace.get("__name__", "__main__"))

    @property
    def package(self) -> str:
        return str(self.namespace.get("__package__") or self.name.rpartition(".")[0])


def load(namespace: Mapping[str, Any]) -> ModuleText:
    """The text of the module whose globals are `namespace`."""
    source = _source(namespace)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise CannotCarry(f"the source of {namespace.get('__name__')} does not parse: {error}") from error
    lazy = any(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in tree.body)
    lines = source.splitlines()
    statements = tuple(
        Statement(
            at,
            node,
            text_of(node, lines),
            _binds(node, namespace),
            changed_by(node),
            read_by(node, lazy_annotations=lazy),
        )
        for at, node in enumerate(_top_level(tree.body, is_main=namespace.get("__name__") == "__main__"))
    )
    return ModuleText(namespace, statements, lazy)


def text_of(node: ast.stmt | ast.expr, lines: list[str]) -> str:
    """The lines of `node` as they stand in the file, decorators included, moved to the left margin."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    last = node.end_lineno or first
    if first == last or isinstance(node, ast.expr):  # it may share its line with others
        return ast.get_source_segment("\n".join(lines), node) or ast.unparse(node)
    text = textwrap.dedent("\n".join(lines[first - 1 : last]))
    try:
        ast.parse(text)
    except SyntaxError:  # a multi-line string that reaches the margin, or a statement behind a semicolon
        return ast.unparse(node)
    return text


@functools.lru_cache(maxsize=64)
def parsed_file(filename: str) -> tuple[ast.Module, list[str]]:
    lines = "".join(linecache.getlines(filename))
    if not lines:
        raise CannotCarry(f"the source {filename} cannot be read")
    return ast.parse(lines), lines.splitlines()


def user_modules() -> Iterator[ModuleType]:
    """Modules that the user wrote: neither installed nor of the standard library."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and is_users(vars(module)):
            yield module


def is_users(namespace: Mapping[str, Any]) -> bool:
    name, file = str(namespace.get("__name__")), namespace.get("__file__")
    if name == "__main__":
        return True
    if not isinstance(file, str) or not file.endswith(".py") or name.partition(".")[0] in ("torch", "torchsleuth"):
        return False
    path = Path(file).absolute()
    return not any(path.is_relative_to(folder) for folder in _installed()) and not {
        "site-packages",
        "dist-packages",
    } & {*path.parts}


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


@functools.cache
def _installed() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")})


def _source(namespace: Mapping[str, Any]) -> str:
    file = namespace.get("__file__")
    if isinstance(file, str):
        found = "".join(linecache.getlines(file, dict(namespace)))
    else:  # a notebook keeps its cells in `In`; those with magic commands do not parse and are left out
        found = "\n".join(cell for cell in namespace.get("In", ()) if _parses(cell))
    if not found:
        raise CannotCarry(f"the source of {namespace.get('__name__')} cannot be read")
    return found


def _parses(cell: object) -> bool:
    try:
        ast.parse(str(cell))
    except SyntaxError:
        return False
    return True


def _top_level(body: list[ast.stmt], *, is_main: bool) -> Iterator[ast.stmt]:
    """The statements, those of a main guard in its place, without what only type checkers see."""
    for node in body:
        test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
        if isinstance(node, ast.If) and "__name__" in test and "__main__" in test:
            yield from _top_level(node.body if is_main else node.orelse, is_main=is_main)
        elif isinstance(node, ast.If) and test in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from node.orelse
        else:
            yield node


def _binds(node: ast.stmt, namespace: Mapping[str, Any]) -> frozenset[str]:
    names = bound_by([node])
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        module = sys.modules.get(absolute(node, namespace))
        public = getattr(module, "__all__", None) or [n for n in vars(module or ast) if not n.startswith("_")]
        return frozenset(public) if module else names
    return names


def absolute(node: ast.ImportFrom, namespace: Mapping[str, Any]) -> str:
    """The full name of the module that a `from` import names."""
    if not node.level:
        return node.module or ""
    name = str(namespace.get("__name__", ""))
    package = str(namespace.get("__package__") or name.rpartition(".")[0])
    parent = package.split(".")[: len(package.split(".")) - (node.level - 1)]
    return ".".join([*parent, *([node.module] if node.module else [])])
