"""Statements by number, in the order of the text; without some of them; without what only wraps them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator

_BODIES = ("body", "orelse", "finalbody")


def numbered(tree: ast.Module) -> list[tuple[int, ast.stmt]]:
    """Every statement with its depth, in the order of the text: its place in the list is its number."""
    found: list[tuple[int, ast.stmt]] = []

    def visit(body: list[ast.stmt], depth: int) -> None:
        for statement in body:
            found.append((depth, statement))
            for inner in _lists(statement):
                visit(inner, depth + 1)

    visit(tree.body, 0)
    return found


def _lists(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in _BODIES:
        inner = getattr(statement, name, None)
        if isinstance(inner, list):
            yield inner
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def without(tree: ast.Module, numbers: Collection[int]) -> ast.Module:
    """A copy that has none of these statements, nor what is in them."""
    new = copy.deepcopy(tree)
    gone = {id(statement) for number, (_, statement) in enumerate(numbered(new)) if number in numbers}

    def clean(body: list[ast.stmt], required: bool) -> None:
        kept = [s for s in body if id(s) not in gone]
        for statement in kept:
            for name in _BODIES:
                inner = getattr(statement, name, None)
                if isinstance(inner, list):
                    clean(inner, required=name == "body")
            for handler in getattr(statement, "handlers", ()):
                clean(handler.body, required=True)
            for case in getattr(statement, "cases", ()):
                clean(case.body, required=True)
        body[:] = kept or ([ast.Pass()] if required else [])

    clean(new.body, required=False)
    return new


def never_ends(tree: ast.Module) -> bool:
    """Whether a `while True` of it has lost every way out: judging that would take until somebody loses patience."""
    return any(
        isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and loop.test.value and not _way_out(loop)
        for loop in ast.walk(tree)
    )


def _way_out(loop: ast.While) -> bool:
    """What leaves it by itself; calls and lookups in it may raise, so a `try` around it is none."""
    return any(isinstance(n, (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) for n in ast.walk(loop))


def unwrapped(tree: ast.Module) -> Iterator[ast.Module]:
    """With the body of an if, with, for, try or while in its place, one at a time."""
    for number, (_, statement) in enumerate(numbered(tree)):
        for name in _BODIES:
            inner = getattr(statement, name, None)
            wraps = isinstance(statement, (ast.If, ast.With, ast.For, ast.While, ast.Try))
            if wraps and isinstance(inner, list) and inner:
                yield _spliced(tree, number, name)


def _spliced(tree: ast.Module, number: int, name: str) -> ast.Module:
    new = copy.deepcopy(tree)
    statement = numbered(new)[number][1]
    return replaced(new, statement, getattr(statement, name))


def replaced(tree: ast.Module, statement: ast.stmt, by: list[ast.stmt]) -> ast.Module:
    """`tree` itself, with `by` in the place of `statement`."""

    def visit(body: list[ast.stmt]) -> bool:
        for i, one in enumerate(body):
            if one is statement:
                body[i : i + 1] = by
                if not body and body is not tree.body:
                    body.append(ast.Pass())
                return True
            if any(visit(inner) for inner in _lists(one)):
                return True
        return False

    visit(tree.body)
    return tree
