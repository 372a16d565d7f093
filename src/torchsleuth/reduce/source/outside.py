"""Tells whether what a script does depends on files, variables or servers that are not part of its text.

A judgement of such a script may not be remembered by a later run: the file may have changed since.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_READERS = {"environ", "getenv", "expanduser", "from_pretrained", "hub", "load_dataset", "urlopen", "urlretrieve"}
_SETTERS = {"update", "setdefault", "pop"}
_LONGEST_PATH = 4096


def reads_outside(text: str, folders: Sequence[Path]) -> bool:
    """Whether the text imports a module that stands in `folders`, names a file that exists, or asks elsewhere."""
    tree = ast.parse(text)
    set_only = {id(node) for node in _environments_that_are_set(tree)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(_stands_in(name, folders) for name in _modules(node)):
                return True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _is_file(node.value):
                return True
        elif _name_of(node) in _READERS and id(node) not in set_only:
            return True
    return False


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""]


def _stands_in(module: str, folders: Sequence[Path]) -> bool:
    top = module.partition(".")[0]
    return any((folder / f"{top}.py").is_file() or (folder / top).is_dir() for folder in folders if top)


def _is_file(value: str) -> bool:
    if not os.path.isabs(value) or len(value) > _LONGEST_PATH or "\0" in value or value.startswith("/dev/"):
        return False
    return value != os.sep and os.path.exists(value)


def _environments_that_are_set(tree: ast.Module) -> Iterator[ast.AST]:
    """`os.environ` where it is written to: `os.environ["A"] = "1"`, `os.environ.update(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SETTERS:
            yield node.func.value
