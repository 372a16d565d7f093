"""Expressions made smaller: a part in the place of the whole, an argument fewer, a smaller number."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from torchsleuth.reduce.source.inlining import Replaced

_LISTS = {"args", "keywords", "elts", "decorator_list", "bases", "values", "targets", "items", "ifs"}


def simpler(tree: ast.Module) -> Iterator[ast.Module]:
    """One change at a time, the largest expressions first."""
    count = len(_expressions(tree))
    sizes = [sum(1 for _ in ast.walk(e)) for e in _expressions(tree)]
    for number in sorted(range(count), key=lambda n: -sizes[n]):
        original = _expressions(tree)[number]
        for choice in range(len(_parts(original))):
            yield _with(tree, number, choice)
        element = _element(original)
        if element is not None:
            yield _element_of(tree, number)
        if isinstance(original, ast.Constant) and type(original.value) is int and original.value > 2:
            yield _constant(tree, number, 2)
    yield from _fewer(tree)


def with_breaks_allowed(tree: ast.Module) -> ast.Module:
    """Without `fullgraph=True`, as a keyword or in a dict of them.

    With it a script raises as soon as compilation is switched off, so that nobody can show that it passes then.
    """
    new = copy.deepcopy(tree)
    for node in ast.walk(new):
        if isinstance(node, ast.Call):
            node.keywords = [k for k in node.keywords if k.arg != "fullgraph"]
        elif isinstance(node, ast.Dict):
            pairs = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if not _is_text(k, "fullgraph")]
            node.keys, node.values = [k for k, _ in pairs], [v for _, v in pairs]
    return new


def _is_text(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _expressions(tree: ast.Module) -> list[ast.expr]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.expr)]


def _parts(expression: ast.expr) -> list[ast.expr]:
    """Expressions that can stand in its place: not the name of what is called, nor a name that is bound."""
    if not isinstance(getattr(expression, "ctx", ast.Load()), ast.Load):
        return []
    called = expression.func if isinstance(expression, ast.Call) else None
    receiver = called.value if isinstance(called, ast.Attribute) else None
    inner = [n for n in ast.iter_child_nodes(expression) if isinstance(n, ast.expr) and n is not called]
    inner += [k.value for k in expression.keywords] if isinstance(expression, ast.Call) else []
    if isinstance(expression, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        inner = [expression.generators[0].iter]  # the others need the names that it binds
    return ([receiver] if receiver is not None else []) + inner


def _with(tree: ast.Module, number: int, choice: int) -> ast.Module:
    new = copy.deepcopy(tree)
    whole = _expressions(new)[number]
    part = _parts(whole)[choice]
    Replaced(whole, part).visit(new)
    return new


def _element(expression: ast.expr) -> ast.expr | None:
    """`a` of `[a, b][0]`."""
    if not isinstance(expression, ast.Subscript) or not isinstance(expression.value, (ast.List, ast.Tuple)):
        return None
    at, elements = expression.slice, expression.value.elts
    known = isinstance(at, ast.Constant) and type(at.value) is int and -len(elements) <= at.value < len(elements)
    return elements[at.value] if known and isinstance(at, ast.Constant) else None  # type: ignore[index]


def _element_of(tree: ast.Module, number: int) -> ast.Module:
    new = copy.deepcopy(tree)
    whole = _expressions(new)[number]
    Replaced(whole, _element(whole)).visit(new)
    return new


def _constant(tree: ast.Module, number: int, value: int) -> ast.Module:
    new = copy.deepcopy(tree)
    found = _expressions(new)[number]
    assert isinstance(found, ast.Constant)
    found.value = value
    return new


def _fewer(tree: ast.Module) -> Iterator[ast.Module]:
    """One element of a list fewer: an argument, a keyword, a decorator, a base, an element."""
    for number, node in enumerate(ast.walk(tree)):
        for name in _LISTS:
            elements = getattr(node, name, None)
            # Parameters go with what is given for them: inlining.parameters.
            if not isinstance(elements, list) or isinstance(node, (ast.Dict, ast.arguments)):
                continue
            for index, element in enumerate(elements):
                if isinstance(element, ast.keyword) and element.arg == "backend":
                    continue  # says whose bug it is, and what takes its place takes longer
                new = copy.deepcopy(tree)
                own = list(ast.walk(new))[number]
                del getattr(own, name)[index]
                yield new
