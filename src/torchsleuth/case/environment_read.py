"""Which variables of the environment a piece of source reads by name: carried source reads them again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.I)  # these go into no script
_LONGEST = 200


def read_by(sources: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Those that are set, in the order in which they are read."""
    names = [name for source in sources for name in _names(source)]
    return {
        name: environment[name]
        for name in names
        if name in environment and not _SECRET.search(name) and len(environment[name]) <= _LONGEST
    }


def _names(source: str) -> Iterable[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _ends(node.value, "environ"):
            yield from _text(node.slice)
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            asks = isinstance(function, ast.Attribute) and function.attr == "get" and _ends(function.value, "environ")
            if asks or _ends(function, "getenv"):
                yield from _text(node.args[0])
        elif isinstance(node, ast.Compare) and any(_ends(c, "environ") for c in node.comparators):
            yield from _text(node.left)


def _ends(node: ast.AST, word: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == word) or (isinstance(node, ast.Name) and node.id == word)


def _text(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
