"""Blank lines where people put them: ast.unparse has its own ideas."""

from __future__ import annotations

import ast

_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def laid_out(text: str) -> str:
    """One blank line around functions and classes and after imports, none after a header; the same program."""
    tree = ast.parse(text)
    lines = text.splitlines()
    starts = _starts(tree)
    inside = {n for s in ast.walk(tree) if isinstance(s, ast.Constant) for n in range(s.lineno + 1, _end(s) + 1)}
    kept: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() and number not in inside:
            continue
        if starts.get(number) and kept:
            kept.append("")
        kept.append(line)
    new = "\n".join(kept) + "\n"
    return new if ast.dump(ast.parse(new)) == ast.dump(tree) else text


def _starts(tree: ast.Module) -> dict[int, bool]:
    """Lines on which a statement begins: whether a blank line belongs before it."""
    found: dict[int, bool] = {}
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            for before, after in zip([None, *body], body, strict=False):
                block = isinstance(before, _BLOCKS) or isinstance(after, _BLOCKS)
                ends = isinstance(before, _IMPORTS) and not isinstance(after, _IMPORTS)
                found[_first(after)] = before is not None and (block or (ends and isinstance(node, ast.Module)))
    return found


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _end(node: ast.Constant) -> int:
    return node.end_lineno or node.lineno
