"""Other settings for every torch.compile of a script."""

from __future__ import annotations

import ast
import copy

_OTHERS = {"re", "ast", "builtins", "regex", "py_compile", "jinja2"}  # modules whose `compile` is another one


def on_backend(tree: ast.Module, name: str) -> ast.Module:
    """Each torch.compile with this backend, and without what only Inductor takes."""
    return _with(tree, ("backend", "mode", "options"), "backend", name)


def in_one_graph(tree: ast.Module) -> ast.Module:
    """Each torch.compile with fullgraph=True: its first graph break is an error."""
    return _with(tree, ("fullgraph",), "fullgraph", True)


def failing_on_recompile(tree: ast.Module) -> ast.Module:
    """Compiling a function once more is an error."""
    new = copy.deepcopy(tree)
    at = next((n for n, s in enumerate(new.body) if not _is_import(s)), len(new.body))
    new.body[at:at] = ast.parse("torch._dynamo.config.error_on_recompile = True").body
    if not any(
        isinstance(s, ast.Import) and any(a.name == "torch" and not a.asname for a in s.names) for s in new.body[:at]
    ):
        new.body[at:at] = ast.parse("import torch").body
    return new


def _with(tree: ast.Module, dropped: tuple[str, ...], name: str, value: object) -> ast.Module:
    new = copy.deepcopy(tree)
    for node in ast.walk(new):
        if isinstance(node, ast.Call) and _is_compile(node.func):
            node.keywords = [*(k for k in node.keywords if k.arg not in dropped), _keyword(name, value)]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.decorator_list = [
                ast.Call(d, [], [_keyword(name, value)]) if _is_compile(d) else d for d in node.decorator_list
            ]
    return new


def _is_compile(function: ast.expr) -> bool:
    """`torch.compile`, and `model.compile` of a module."""
    if not isinstance(function, ast.Attribute) or function.attr != "compile":
        return False
    return not (isinstance(function.value, ast.Name) and function.value.id in _OTHERS)


def _keyword(name: str, value: object) -> ast.keyword:
    return ast.keyword(name, ast.Constant(value))  # type: ignore[arg-type]


def _is_import(statement: ast.stmt) -> bool:
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return docstring or isinstance(statement, (ast.Import, ast.ImportFrom))
