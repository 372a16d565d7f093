"""Which names a piece of Python binds, changes and reads, by its syntax tree alone.

Reads are kept as dotted chains, ("helpers", "scale") for `helpers.scale`, and apart by when they happen: `now`, when
the statement runs, or `later`, when a function that it defines is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Chain = tuple[str, ...]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.Match)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHANGING_METHODS = frozenset("append extend insert add update setdefault pop popitem remove discard clear".split())


@dataclass(frozen=True)
class Reads:
    now: frozenset[Chain]
    later: frozenset[Chain]
    hints: frozenset[Chain]  # annotations that are never evaluated


def chain_of(node: ast.expr) -> Chain | None:
    """`a.b.c` as ("a", "b", "c"); None for what does not start at a plain name."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else None


def bound_by(body: Iterable[ast.AST]) -> frozenset[str]:
    """Names that running `body` binds in its own scope."""
    names: set[str] = set()
    for node in _same_scope(body):
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return frozenset(names) - {"*"}


def changed_by(statement: ast.stmt) -> frozenset[str]:
    """Names of objects that it changes in place: `T[k] = v`, `T.update(..)`, `@T.register`, `op.register_fake(f)`."""
    if isinstance(statement, COMPOUND):
        inside = [changed_by(part) for part in _blocks(statement)]
        # A block that does anything else as well is the program's own work, not a way to fill a table.
        return frozenset[str]().union(*inside) if all(inside) else frozenset()
    roots: list[ast.expr] = []
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        targets = statement.targets if isinstance(statement, (ast.Assign, ast.Delete)) else [statement.target]
        roots = [target.value for target in targets if isinstance(target, (ast.Attribute, ast.Subscript))]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        # `op.register_kernel("cpu")(f)` is a call of a call.
        function = function.func if isinstance(function, ast.Call) else function
        if isinstance(function, ast.Attribute) and _changes(function.attr):
            roots = [function.value]
    elif isinstance(statement, DEFINITIONS):
        calls = [d.func if isinstance(d, ast.Call) else d for d in statement.decorator_list]
        roots = [call.value for call in calls if isinstance(call, ast.Attribute)]
    chains = [chain_of(root.value if isinstance(root, ast.Subscript) else root) for root in roots]
    return frozenset(chain[0] for chain in chains if chain)


def _changes(method: str) -> bool:
    return method in _CHANGING_METHODS or method.startswith(("register", "define", "impl"))


def _blocks(statement: ast.stmt) -> Iterator[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from part.body


def read_by(node: ast.AST, *, lazy_annotations: bool = False) -> Reads:
    """Names that `node` reads from the scope around it."""
    visitor = _Reader(lazy_annotations)
    visitor.visit(node)
    return Reads(frozenset(visitor.now), frozenset(visitor.later), frozenset(visitor.hints))


@dataclass
class _Scope:
    names: frozenset[str]
    is_class: bool = False


@dataclass
class _Reader(ast.NodeVisitor):
    lazy_annotations: bool
    now: set[Chain] = field(default_factory=set)
    later: set[Chain] = field(default_factory=set)
    hints: set[Chain] = field(default_factory=set)
    scopes: list[_Scope] = field(default_factory=list)
    depth: int = 0
    hinting: bool = False

    def _read(self, chain: Chain) -> None:
        # A class's own names are seen by its body, not by its methods.
        seen = [scope for at, scope in enumerate(reversed(self.scopes)) if at == 0 or not scope.is_class]
        if not any(chain[0] in scope.names for scope in seen):
            (self.hints if self.hinting else self.later if self.depth else self.now).add(chain)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = chain_of(node)
        if chain:
            self._read(chain)
        else:
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read((node.target.id,))
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_hint(node.annotation)
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

    def visit_Global(self, node: ast.Global) -> None:
        target = self.later if self.depth else self.now
        target.update((name,) for name in node.names)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self.scopes.append(_Scope(bound_by(node.body), is_class=True))
        self._visit_all(node.body)
        self.scopes.pop()

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, _COMPREHENSIONS):
            super().generic_visit(node)
            return
        self.visit(node.generators[0].iter)  # evaluated outside
        self.scopes.append(_Scope(bound_by([g.target for g in node.generators])))
        super().generic_visit(node)
        self.scopes.pop()

    def _visit_function(self, node: Function) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a]
        self._visit_all([*arguments.defaults, *(d for d in arguments.kw_defaults if d)])
        if isinstance(node, ast.Lambda):
            body: list[ast.AST] = [node.body]
        else:
            self._visit_all(node.decorator_list)
            for hint in [*(a.annotation for a in every), node.returns]:
                if hint:
                    self._visit_hint(hint)
            body = list(node.body)
        outer = {
            name for part in _same_scope(body) if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names
        }
        self.scopes.append(_Scope((bound_by(body) | {a.arg for a in every}) - outer))
        self.depth += 1
        self._visit_all(body)
        self.depth -= 1
        self.scopes.pop()

    def _visit_hint(self, hint: ast.expr) -> None:
        before, self.hinting = self.hinting, self.lazy_annotations
        self.visit(hint)
        self.hinting = before

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _same_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of `body` but those inside functions, classes and the targets of comprehensions."""
    for node in body:
        yield node
        if isinstance(node, (*DEFINITIONS, ast.Lambda)):
            continue
        if isinstance(node, _COMPREHENSIONS):
            yield from (part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
            continue
        yield from _same_scope(ast.iter_child_nodes(node))
