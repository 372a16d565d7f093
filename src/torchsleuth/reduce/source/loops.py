"""The first round of a loop in its place; one element for a comprehension; two rounds for many."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from torchsleuth.reduce.source.inlining import Replaced
from torchsleuth.reduce.source.statements import numbered, replaced


def first_rounds(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one loop: its target bound to the first of what it goes over, then its body."""
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.For) or _leaves(statement):
            continue
        new = copy.deepcopy(tree)
        own = numbered(new)[number][1]
        assert isinstance(own, ast.For)
        yield replaced(new, own, [*_bound(own.target, own.iter), *own.body])


def shorter(tree: ast.Module) -> Iterator[ast.Module]:
    """`[f()]` for `[f() for _ in many]`, `range(2)` for `range(n)`."""
    for number, node in enumerate(ast.walk(tree)):
        by: ast.expr | None = None
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and not _uses_target(node):
            by = ast.List([copy.deepcopy(node.elt)], ast.Load())
        elif _is_call_of(node, "range") and not _small(node):
            by = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(2)], [])
        if by is not None:
            new = copy.deepcopy(tree)
            Replaced(list(ast.walk(new))[number], by).visit(new)
            yield new


def _bound(target: ast.expr, over: ast.expr) -> list[ast.stmt]:
    if isinstance(target, ast.Tuple) and isinstance(over, ast.Call) and len(target.elts) == 2:
        if _is_call_of(over, "enumerate"):
            return [*_bound(target.elts[0], _call("range")), *_bound(target.elts[1], over.args[0])]
        if _is_call_of(over, "zip") and len(over.args) == 2:
            return [s for t, o in zip(target.elts, over.args, strict=True) for s in _bound(t, o)]
    return [ast.Assign([target], _first(over), lineno=0)]


def _first(over: ast.expr) -> ast.expr:
    if _is_call_of(over, "range"):
        assert isinstance(over, ast.Call)
        return over.args[0] if len(over.args) > 1 else ast.Constant(0)
    if isinstance(over, (ast.List, ast.Tuple)) and over.elts:
        return over.elts[0]
    return ast.Subscript(over, ast.Constant(0), ast.Load())


def _call(name: str) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [], [])


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _small(node: ast.AST) -> bool:
    """`range(2)` and less: nothing would change."""
    assert isinstance(node, ast.Call)
    only = node.args[0] if len(node.args) == 1 else None
    return not node.args or (isinstance(only, ast.Constant) and only.value in (0, 1, 2))


def _leaves(loop: ast.For) -> bool:
    return any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(loop)) or bool(loop.orelse)


def _uses_target(node: ast.ListComp | ast.GeneratorExp) -> bool:
    names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node.elt))
