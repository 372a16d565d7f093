"""Lines where people put them: ast.unparse has its own ideas of blank lines, and writes a string on one line."""

from __future__ import annotations

import ast

_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def laid_out(text: str) -> str:
    """One blank line around functions and classes and after imports, none after a header; the same program.

    A program inside a string, as `exec` takes one, has the lines that it has when it is run.
    """
    text = _with_lines_in_strings(text)
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


def _with_lines_in_strings(text: str) -> str:
    tree = ast.parse(text)
    formatted = {id(n) for joined in ast.walk(tree) if isinstance(joined, ast.JoinedStr) for n in ast.walk(joined)}
    strings = [
        n for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in formatted
        and n.lineno == n.end_lineno and n.value.count("\n") > 1
    ]  # fmt: skip
    rows = text.encode().split(b"\n")
    for node in sorted(strings, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        value = str(node.value)
        opened = '"""' + value.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '"""'
        if value.endswith('"') or not value.replace("\n", "").isprintable():
            continue
        row = rows[node.lineno - 1]
        rows[node.lineno - 1] = row[: node.col_offset] + opened.encode() + row[node.end_col_offset :]
    new = b"\n".join(rows).decode()
    try:
        return new if ast.dump(ast.parse(new)) == ast.dump(tree) else text
    except SyntaxError:
        return text


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
