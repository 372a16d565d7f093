"""Bytecode read back as Python: straight code gives itself again; what is not known is a comment, never a guess."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from torchsleuth.watch.readable import as_python


def calls(graph: Any, x: Any, y: Any) -> Any:
    out = graph(x, y, scale=2)
    first = out[0]
    x.grad = first.view(3, 4)
    y[1] = (first + 1) * -x.size
    return (first, out[1])


def branches(graph: Any, x: Any) -> Any:
    if graph(x) > 0:
        return x.one()
    return x.other(None)


def grows(f: Any, x: Any) -> Any:
    parts = [f(x), x]
    parts[0:1] = [x, x]
    del parts[1]
    return f(*parts)


ANSWERS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (grows, (lambda *a: sum(a), 2)),
]


@pytest.mark.parametrize("function", [calls, branches, grows])
def test_it_is_python(function: Callable[..., Any]) -> None:
    text = as_python(function.__code__)
    assert ast.parse(text).body[0].name == function.__name__  # type: ignore[attr-defined]
    assert "# " not in text


@pytest.mark.parametrize(("function", "arguments"), ANSWERS)
def test_it_does_the_same(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    made: dict[str, Any] = {}
    exec(as_python(function.__code__, "made"), made)
    assert made["made"](*arguments) == function(*arguments)


@pytest.mark.parametrize("value", [1, -1])
def test_both_ways_of_a_branch_are_there(value: int) -> None:
    class X:
        def one(self) -> str:
            return "one"

        def other(self, _: None) -> str:
            return "other"

    made: dict[str, Any] = {}
    exec(as_python(branches.__code__), made)
    assert made["branches"](lambda x: value, X()) == branches(lambda x: value, X())


def test_calls_with_keywords_and_attributes() -> None:
    text = as_python(calls.__code__)
    assert "out = graph(x, y, scale=2)" in text
    assert "x.grad = first.view(3, 4)" in text
    assert "return (first, out[1])" in text


def test_what_is_not_known_is_a_comment() -> None:
    def loops(xs: Any) -> Any:
        for x in xs:
            x.go()
        return xs

    assert "# " in as_python(loops.__code__)
