"""Lines in front of a script."""

from __future__ import annotations

import ast


def with_lines(text: str, lines: list[str]) -> str:
    """Before the first statement that may stand there: a docstring and what comes from the future stay in front."""
    first = next((s for s in ast.parse(text).body if not _in_front(s)), None)
    if first is None:
        return text
    decorators = getattr(first, "decorator_list", [])
    place = min([first.lineno, *(d.lineno for d in decorators)]) - 1
    before = text.split("\n")  # as Python counts lines; splitlines() also ends one at a form feed
    return "\n".join([*before[:place], *lines, *before[place:]])


def _in_front(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
