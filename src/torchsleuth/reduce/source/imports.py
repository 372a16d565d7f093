"""Names that an import brings and nothing reads; whole statements go by themselves."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Set as AbstractSet

_Place = tuple[int, int]  # which import, and which of its names


def fewer_names(tree: ast.Module) -> Iterator[ast.Module]:
    """Without all of them, then without each alone: importing a module may do something, too."""
    idle = _idle(tree)
    if not idle:
        return
    yield _without(tree, set(idle))
    if len(idle) > 1:
        for place in idle:
            yield _without(tree, {place})


def _idle(tree: ast.Module) -> list[_Place]:
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    known: set[tuple[str, str | None]] = set()
    found: list[_Place] = []
    for number, statement in enumerate(_imports(tree)):
        idle = []
        for at, alias in enumerate(statement.names):
            name = alias.asname or alias.name.partition(".")[0]
            module = "" if isinstance(statement, ast.Import) else f"{statement.level} {statement.module} "
            again = (module + alias.name, alias.asname) in known
            known.add((module + alias.name, alias.asname))
            if alias.name != "*" and (again or name not in read):
                idle.append((number, at))
        found += idle if len(statement.names) > 1 else []
    return found


def _imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Of the file itself; those in functions bring names that are known only there."""
    return [s for s in tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]


def _without(tree: ast.Module, places: AbstractSet[_Place]) -> ast.Module:
    new = copy.deepcopy(tree)
    for number, statement in enumerate(_imports(new)):
        statement.names = [alias for at, alias in enumerate(statement.names) if (number, at) not in places]
    new.body = [s for s in new.body if getattr(s, "names", True)]
    return new
