"""Another backend for every torch.compile of a script."""

from __future__ import annotations

import ast
import copy


def on_backend(tree: ast.Module, name: str) -> ast.Module:
    """Each torch.compile with this backend, and without what only Inductor takes."""
    new = copy.deepcopy(tree)
    for node in ast.walk(new):
        if isinstance(node, ast.Call) and _is_compile(node.func):
            kept = [k for k in node.keywords if k.arg not in ("backend", "mode", "options")]
            node.keywords = [*kept, _keyword(name)]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.decorator_list = [
                ast.Call(d, [], [_keyword(name)]) if _is_compile(d) else d for d in node.decorator_list
            ]
    return new


def _is_compile(function: ast.expr) -> bool:
    return isinstance(function, (ast.Name, ast.Attribute)) and ast.unparse(function) == "torch.compile"


def _keyword(name: str) -> ast.keyword:
    return ast.keyword("backend", ast.Constant(name))
