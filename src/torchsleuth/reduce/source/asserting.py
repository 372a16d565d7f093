"""A program that says in its own way that its numbers are wrong, made to say it as a repro does: by an assertion."""

from __future__ import annotations

import ast

_ENDS = {"sys.exit", "exit", "quit", "os._exit"}


def asserting(text: str) -> str:
    """`raise Mismatch(...)` and `sys.exit(1)` as assertions; the text itself where there is neither."""
    tree = ast.parse(text)
    changed = _Asserting().visit(ast.parse(text))
    return text if ast.dump(changed) == ast.dump(tree) else ast.unparse(ast.fix_missing_locations(changed)) + "\n"


class _Asserting(ast.NodeTransformer):
    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        if node.exc is None:
            return node
        name, given = (node.exc.func, node.exc.args) if isinstance(node.exc, ast.Call) else (node.exc, [])
        if ast.unparse(name) == "SystemExit":
            return _ended(node, given)
        return _raised(given)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        called = node.value
        if isinstance(called, ast.Call) and ast.unparse(called.func) in _ENDS:
            return _ended(node, called.args)
        return node


def _ended(node: ast.stmt, given: list[ast.expr]) -> ast.stmt:
    """With status 0, or none, a program ends well: that stays."""
    if not given or (isinstance(given[0], ast.Constant) and not given[0].value):
        return node
    if isinstance(given[0], (ast.Constant, ast.JoinedStr)):
        said = given if not isinstance(getattr(given[0], "value", None), int) else []
        return _raised(said)
    return ast.Assert(ast.UnaryOp(ast.Not(), given[0]))


def _raised(given: list[ast.expr]) -> ast.Raise:
    name = ast.Name("AssertionError", ast.Load())
    return ast.Raise(ast.Call(name, given, []) if given else name)
