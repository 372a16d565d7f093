"""The operators of a repro, read from its text, for drawing: what each is called and which values it reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Node = tuple[str, str, tuple[str, ...]]  # name, label, names it reads


def nodes_of(source: str) -> list[Node]:
    """Empty where the text holds no function of plain assignments."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in ("f", "forward")]
    if not bodies:
        return []
    function = bodies[-1]
    inputs = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg != "self"]
    return [*((name, name, ()) for name in inputs), *_statements(function.body)]


def _statements(body: list[ast.stmt]) -> Iterator[Node]:
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, _label(statement.value), _reads(statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            target = ast.unparse(statement.targets[0])
            yield f"line {statement.lineno}", f"{target} = {ast.unparse(statement.value)}", _reads(statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):  # it changes what it is given
            yield f"line {statement.lineno}", _label(statement.value), _reads(statement.value)
        elif isinstance(statement, ast.With):
            yield from _statements(statement.body)


def _reads(node: ast.AST) -> tuple[str, ...]:
    found = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id != "torch"]
    return tuple(dict.fromkeys(found))


def _label(value: ast.expr) -> str:
    if isinstance(value, ast.Call):
        return f"{ast.unparse(value.func).removeprefix('torch.')}()"
    return ast.unparse(value)
