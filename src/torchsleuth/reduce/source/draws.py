"""Random numbers as eager draws them, while a program that compares its own results is made smaller.

Compiled code draws in its own way: of a program that has lost its `.eval()`, or what made it draw like eager, any
dropout looks wrong.  So each candidate is judged with a line more; what is written has it only where it may matter.
"""

from __future__ import annotations

import ast
import re

_SETTING = "torch._inductor.config.fallback_random = True"
_BINDS_NOTHING = '__import__("torch._inductor.config")._inductor.config.fallback_random = True'
_DRAWS = re.compile(
    r"dropout|rand\w*_like|bernoulli|multinomial|rrelu|\.(normal|uniform|exponential|geometric|cauchy|random)_\(", re.I
)


def judged(text: str) -> str:
    """No name is bound, so that a candidate without its imports is refused as it should be."""
    return _with_lines(text, [_BINDS_NOTHING])


def written(text: str) -> str:
    if _SETTING in text or not _DRAWS.search(text):
        return text
    return _with_lines(text, ["import torch._inductor.config", _SETTING])


def _with_lines(text: str, lines: list[str]) -> str:
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
