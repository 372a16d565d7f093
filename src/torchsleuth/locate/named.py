"""The operator that the error itself names, and the user's line that made it."""

from __future__ import annotations

import re
from pathlib import Path

from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import Graph, Node, Source
from torchsleuth.case.model import Case

_TARGET = re.compile(r"^\s*target: ([\w:.]+)|call_function\[target=(?:torch\.ops\.)?([\w.]+)\]", re.M)
_STACK = r'\s*((?:\s*File "[^"]+", line \d+.*\n?(?:(?!\s*File ).+\n?)*)+)'  # code, carets
_USERS = re.compile(r"(?:Original traceback|from user code|overwritten by a subsequent run\. Stack trace):" + _STACK)
_ADVICE = re.compile(r"\. To prevent overwriting.*")
_FILE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


def operator_named(failure: Failure) -> str | None:
    found = _TARGET.findall(failure.text)
    names = [a or b for a, b in found]
    return names[-1].removeprefix("torch.ops.") if names else None


def line_named(failure: Failure) -> Source | None:
    """torch appends the user's own stack to errors of Dynamo and of graph interpreters."""
    blocks = _USERS.findall(failure.text)
    lines = _FILE.findall(blocks[-1]) if blocks else []
    lines = [row for row in lines if not _is_pythons(row[0])]
    users = [row for row in lines if not _is_library(row[0])] or lines
    if not users:
        return None
    file, line, function, code = users[-1]
    return Source(file, int(line), function, _ADVICE.sub("", code.strip()))


def function_at(place: str) -> Source | None:
    """From `file:line in function`: what was being compiled, where the error names no line in it."""
    found = re.fullmatch(r"(.+):(\d+) in (\S+)", place)
    return Source(found[1], int(found[2]), found[3]) if found and not _is_pythons(found[1]) else None


def _is_pythons(file: str) -> bool:
    """Of the standard library: a `with` that Dynamo compiles by itself says nothing of who wrote it."""
    return bool(re.search(r"[/\\]lib(?:64)?[/\\]python\d+\.\d+[/\\]", file)) and not _is_library(file)


def _is_library(file: str) -> bool:
    return "site-packages" in Path(file).parts or "dist-packages" in Path(file).parts


def line_of(operator: str, cases: list[Case]) -> Source | None:
    """The line of the only node with this target; where there are several, nobody knows which."""
    for case in cases:
        sources = {n.source for n in _nodes(case.graph, operator) if n.source}
        if len(sources) == 1:
            return sources.pop()
    return None


def line_reading(code: str, file: Path) -> Source | None:
    """The only line of a file that reads like this, without spaces and what differs in quotes."""
    wanted = _plain(code)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    found = [n for n, line in enumerate(lines, start=1) if wanted and _plain(line) == wanted]
    return Source(str(file), found[0], "", lines[found[0] - 1].strip()) if len(found) == 1 else None


def _plain(line: str) -> str:
    return re.sub(r"\s+", "", line.partition("  #")[0]).replace("'", '"')


def _nodes(graph: Graph, operator: str) -> list[Node]:
    return [n for g in graph.all_graphs() for n in g.nodes if n.target.removeprefix("torch.ops.") == operator]
