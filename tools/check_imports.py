"""Rooms only look backwards: check the imports of src/ against the architecture.

Three rules, all read from the syntax tree, so that nothing is imported and only the standard library is needed:

- a room of `torchsleuth` imports itself and the rooms that `MAY_IMPORT` gives it;
- torch's private names stand in `torch_api/` alone (a string that holds one is no use of it);
- what must start fast does not import torch, rich or safetensors when it is itself imported.

    python tools/check_imports.py [SRC]      prints file:line: message for each violation; status 1 if there is any
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "torchsleuth"
AUTOLOAD = "torchsleuth_autoload"

SHARED = ("budget", "errors", "torch_api", "operators")
IN_ORDER = ("case", "referee", "watch", "judge", "diagnose", "locate", "reduce", "write")
BESIDE = ("backends", "explain")
ALL_ROOMS = frozenset((*SHARED, *IN_ORDER, *BESIDE))

# "__init__" as an imported room means the public API: a name taken from `torchsleuth` itself.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "budget": frozenset(),
    "errors": frozenset(),
    "backend_table": frozenset(),
    "torch_api": frozenset({"errors"}),
    "operators": frozenset(),
    **{room: frozenset((*SHARED, *IN_ORDER[:place])) for place, room in enumerate(IN_ORDER)},
    **{room: frozenset((*SHARED, "case", "referee", "watch", "judge")) for room in BESIDE},
    "doctor": ALL_ROOMS,
    "investigate": ALL_ROOMS,
    "commands": ALL_ROOMS | {"investigate"},
    "library": ALL_ROOMS | {"commands"},
    "pytest_plugin": frozenset({"library"}),
    "__init__": frozenset({"library"}),
    "cli": ALL_ROOMS | {"backend_table", "commands", "doctor", "library", "__init__"},
    "__main__": frozenset({"cli"}),
    AUTOLOAD: frozenset((*SHARED, "case", "watch")),
}

# Names of `torchsleuth` that any room may take, because they cost and know nothing.
PACKAGE_CONSTANTS = frozenset({"__version__"})

PRIVATE_TORCH_HOME = f"{PACKAGE}/torch_api/"

# Files (in src/) that may name torch's private functions although they are not in `torch_api/`: path -> reason.
PRIVATE_TORCH_EXCEPTIONS: dict[str, str] = {}

HEAVY = frozenset({"torch", "rich", "safetensors"})


@dataclass(frozen=True, order=True)
class Violation:
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    """One parsed file of src/, and where it stands in the architecture."""

    path: Path
    inside: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        first = self.inside.parts[0]
        if first != PACKAGE:
            return self.inside.stem
        return Path(self.inside.parts[1]).stem

    @property
    def starts_fast(self) -> bool:
        return self.room in {"cli", "operators", "__init__", AUTOLOAD}

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that a `from ... import` names, with leading dots resolved."""
        if not node.level:
            return node.module or ""
        package = self.inside.parts[: -node.level]
        return ".".join((*package, node.module) if node.module else package)

    def violation(self, node: ast.stmt | ast.expr, message: str) -> Violation:
        return Violation(self.path, node.lineno, message)


def check(src: Path, exceptions: Mapping[str, str] = PRIVATE_TORCH_EXCEPTIONS) -> list[Violation]:
    """All violations under `src`, by file and line."""
    found: list[Violation] = []
    for path in (*sorted((src / PACKAGE).rglob("*.py")), src / f"{AUTOLOAD}.py"):
        if not path.exists():
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        except SyntaxError as error:
            found.append(Violation(path, error.lineno or 1, f"cannot be parsed: {error.msg}"))
            continue
        source = Source(path, path.relative_to(src), tree)
        found += room_violations(source)
        place = source.inside.as_posix()
        if not place.startswith(PRIVATE_TORCH_HOME) and place not in exceptions:
            found += private_torch_violations(source)
        if source.starts_fast:
            found += heavy_violations(source)
    return sorted(set(found))


def room_violations(source: Source) -> Iterator[Violation]:
    allowed = MAY_IMPORT.get(source.room)
    if allowed is None:
        yield Violation(source.path, 1, f"{source.room!r} is no room that is known: give it a place in MAY_IMPORT")
        return
    for node in ast.walk(source.tree):
        for room in imported_rooms(source, node):
            if room != source.room and room not in allowed:
                assert isinstance(node, ast.stmt)
                name = "the public API (import the room itself)" if room == "__init__" else room
                yield source.violation(node, f"{source.room} must not import {name}")


def imported_rooms(source: Source, node: ast.AST) -> Iterator[str]:
    """The rooms of torchsleuth that an import statement names."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = source.absolute(node)
        modules = [f"{base}.{alias.name}" for alias in node.names] if base == PACKAGE else [base]
    else:
        return
    for module in modules:
        package, _, rest = module.partition(".")
        room = rest.partition(".")[0]
        if package != PACKAGE or room in PACKAGE_CONSTANTS:
            continue
        is_module = room in MAY_IMPORT or is_inside_package(source, room)
        yield room if room and is_module else "__init__"


def is_inside_package(source: Source, name: str) -> bool:
    src = source.path.parents[len(source.inside.parts) - 1]
    return bool(name) and ((src / PACKAGE / name).is_dir() or (src / PACKAGE / f"{name}.py").is_file())


def private_torch_violations(source: Source) -> Iterator[Violation]:
    bound = {"torch": "torch"}
    for node in ast.walk(source.tree):
        for name, target in torch_bindings(node):
            assert isinstance(node, ast.stmt)
            if name is not None:
                bound[name] = target
            if is_private(target):
                yield source.violation(node, f"{target} is private to torch: reach it through torch_api")

    # An import of a private module was reported where it stands; what is reached from it is not reported again.
    public = {name: target for name, target in bound.items() if not is_private(target)}
    for chain in attribute_chains(source.tree):
        root, *rest = dotted(chain)
        if root in public and is_private(target := ".".join((public[root], *rest))):
            yield source.violation(chain, f"{target} is private to torch: reach it through torch_api")


def torch_bindings(node: ast.AST) -> Iterator[tuple[str | None, str]]:
    """What an import statement takes from torch: the name that it binds to it, and torch's dotted name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                # `import torch.a.b` binds `torch`; only `as` binds the whole dotted name.
                yield alias.asname, alias.name
    elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "torch":
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def is_private(target: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in target.split("."))


def attribute_chains(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every longest `a.b.c` that begins at a plain name."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Attribute) and dotted(child):
            yield child
        else:
            yield from attribute_chains(child)


def dotted(node: ast.expr) -> list[str]:
    """`a.b.c` as its parts; empty where the chain does not begin at a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def heavy_violations(source: Source) -> Iterator[Violation]:
    for node in run_on_import(source.tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            if module.partition(".")[0] in HEAVY:
                yield source.violation(node, f"{module} is heavy: import it inside the function that needs it")


def run_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: not in functions, nor under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for node in child.orelse:
                yield node
                yield from run_on_import(node)
            continue
        yield child
        yield from run_on_import(child)


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def main(arguments: list[str]) -> int:
    src = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "src"
    if not (src / PACKAGE).is_dir():
        print(f"{src / PACKAGE} is not a folder", file=sys.stderr)
        return 2
    found = check(src)
    here = Path.cwd()
    for violation in found:
        path = violation.path.relative_to(here) if violation.path.is_relative_to(here) else violation.path
        print(Violation(path, violation.line, violation.message))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
