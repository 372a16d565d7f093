"""The file that a program ran, as a script of its own, and what it needs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

from torchsleuth.reduce.source.called_tests import calls_of, file_of_tests
from torchsleuth.watch.launcher import script_of
from torchsleuth.watch.session import Process

_NEED_NUMPY = {"numpy", "from_numpy"}  # methods and functions of torch's
_MOST = 200_000  # characters of a file that is worth trying
# For a program that a launcher started, as torchrun does: a world of this process alone, at any port that is free.
_ALONE = (
    'import os\nos.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", '
    'MASTER_ADDR="127.0.0.1", MASTER_PORT="0")\n'
)


def file_of(process: Process) -> Path | None:
    words = [str(word) for word in process.hello.get("argv", [])]
    script = script_of(words) if file_of_tests(words) is None else file_of_tests(words)
    return None if script is None else Path(str(process.hello.get("cwd", "."))) / script


def folders_of(process: Process, path: Sequence[str]) -> list[Path]:
    """Where the program's own modules are looked for."""
    file = file_of(process)
    return [*([file.parent] if file is not None else []), *map(Path, path)]


def text_of(process: Process) -> str | None:
    """The file that the program ran, as a script of its own; None where it ran no single file."""
    words = [str(word) for word in process.hello.get("argv", [])]
    file, tests = file_of(process), file_of_tests(words)
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return None
    if tests is not None:
        called = calls_of(text, words)
        return f"{text}\n{called}\n" if called and len(text) < _MOST else None
    arguments = words[words.index(str(script_of(words))) + 1 :]
    given = f"import sys\nsys.argv[1:] = {arguments!r}\n" if arguments else ""
    if process.hello.get("rank") is not None:
        given += _ALONE
    future = [s.end_lineno or 0 for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    rows = text.splitlines(keepends=True)
    at = max(future, default=0)  # nothing but a docstring may stand before those
    return "".join([*rows[:at], given, *rows[at:]]) if len(text) < _MOST else None


def imported(text: str) -> tuple[str, ...]:
    """Top-level modules that a script needs, beside the standard library; torch itself imports numpy for some calls."""
    found = {"torch"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Attribute) and node.attr in _NEED_NUMPY:
            found.add("numpy")
    return tuple(sorted(found - set(sys.stdlib_module_names)))
