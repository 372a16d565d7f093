"""A file of tests, run by pytest, as a script of its own: each test that needs no fixture is called."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

_RUNNERS = {"pytest", "py.test"}


def file_of_tests(words: Sequence[str]) -> str | None:
    """The one file that a command line of pytest names; None where it is none, or names none or several."""
    started = [i for i, word in enumerate(words[:4]) if Path(word).name in _RUNNERS]
    if not started:
        return None
    files = {word.partition("::")[0] for word in words[started[0] + 1 :] if not word.startswith("-")}
    named = [file for file in files if file.endswith(".py")]
    return named[0] if len(named) == len(files) == 1 else None


def calls_of(text: str, words: Sequence[str]) -> str:
    """Statements that call the tests: those that the command line names, else all."""
    chosen = {part for word in words for part in word.split("::")[1:]}
    chosen = {part.partition("[")[0] for part in chosen}
    found: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found += _call(node, node.name, 0) if not chosen or node.name in chosen else []
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
            for method in methods:
                if not chosen or method.name in chosen or chosen == {node.name}:
                    found += _call(method, f"{node.name}().{method.name}", 1)
    return "\n".join(found)


def _call(test: ast.FunctionDef, name: str, bound: int) -> list[str]:
    """For each of its parameters, where pytest is told them in one place."""
    needed = [a.arg for a in test.args.args[bound : len(test.args.args) - len(test.args.defaults)]]
    if not needed:
        return [f"{name}()"]
    given = [d for d in test.decorator_list if isinstance(d, ast.Call) and ast.unparse(d.func).endswith("parametrize")]
    if len(given) != 1 or len(given[0].args) < 2:
        return []
    names, values = given[0].args[:2]
    try:
        told = ast.literal_eval(names)
    except ValueError:
        return []
    each = [n.strip() for n in told.split(",")] if isinstance(told, str) else list(told)
    if each != needed:
        return []
    return [f"for given in {ast.unparse(values)}:\n    {name}({'given' if len(each) == 1 else '*given'})"]
