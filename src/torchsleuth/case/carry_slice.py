"""The statements of the user's modules that a name needs, and nothing else.

A name is looked up as Python would: what a statement reads when it runs is bound by the last statement before it; what
a function reads when it is called, by the last one before the call.  The user's own modules are cut open in turn and
their statements stand side by side in one text; imports of the standard library and of the packages that may stay are
kept, reduced to the names in use.  What must stay outside is imported as before, and a reason says so.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from torchsleuth.case import carry_operators
from torchsleuth.case.carry_literals import literal
from torchsleuth.case.carry_names import DEFINITIONS, Chain
from torchsleuth.case.carry_text import CannotCarry, ModuleText, Statement, absolute, is_standard, is_users, load

_LAST = sys.maxsize
_MODULE_NAMES = frozenset(("__name__", "__doc__", "__package__", "__spec__", "__builtins__"))


@dataclass
class Part:
    """What is taken from one module."""

    text: ModuleText
    taken: set[int] = field(default_factory=set)
    seen: set[tuple[int, int]] = field(default_factory=set)
    made: dict[int, dict[str, str]] = field(default_factory=dict)  # statement -> name -> the line that binds it instead
    opened: dict[str, set[Chain]] = field(default_factory=dict)  # name of a user's module here -> attributes in use
    needs: list[Part] = field(default_factory=list)


@dataclass
class Slicer:
    alone: frozenset[str]
    parts: dict[int, Part] = field(default_factory=dict)  # by the identity of the namespace
    imports: dict[str, str] = field(default_factory=dict)  # bound name -> import line
    extra: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # what `extra` binds
    reasons: list[str] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)

    # --- asking ---------------------------------------------------------------------------------------------------

    def part(self, namespace: Mapping[str, Any]) -> Part:
        if id(namespace) not in self.parts:
            self.parts[id(namespace)] = Part(load(namespace))
        return self.parts[id(namespace)]

    def need(self, part: Part, chain: Chain, before: int = _LAST) -> None:
        """Take what binds the first name of `chain` as it is seen just before statement number `before`."""
        name = chain[0]
        self._need_operator_of(chain)
        every = [s for s in part.text.statements if name in s.binds]
        binders = [s for s in every if s.index < before] or every
        if not binders:
            return self._need_unbound(part, name)
        if alias := _plain_import(binders, chain):
            return self._take_plain_import(part, alias, chain)
        if before == _LAST and self._settle(part, binders[-1], name):
            return
        for statement in reversed(binders):
            self._take(part, statement, chain, before)
            if not statement.conditional and not _builds_on_itself(statement, name):
                break
        if isinstance(binders[-1].node, (ast.Import, ast.ImportFrom)):
            return  # settings made on an imported module are the program's surroundings
        for statement in part.text.statements:
            changes = name in statement.changes or _is_filed_in(part.text.namespace, statement, name)
            if changes and statement.index < before and self._concerns(part, statement):
                self._take(part, statement, (name,), before)

    def need_reads(self, part: Part, chains: Collection[Chain], before: int = _LAST) -> None:
        for chain in sorted(chains):
            self.need(part, chain, before)

    def need_operator(self, qualified: str) -> bool:
        """Take every statement that registers something for a custom operator; False where there is none."""
        if qualified in self.operators:
            return True
        self.operators.add(qualified)
        found = False
        for namespace in carry_operators.namespaces(qualified, [part.text.namespace for part in self.parts.values()]):
            part = self.part(namespace)
            for statement in carry_operators.registrations(part.text, qualified):
                found = True
                self._take(part, statement, (), _LAST)
                for name in statement.binds:  # what is registered through the operator's variable
                    self.need(part, (name,))
        return found

    def need_foreign(self, module: str) -> None:
        """A module that cannot be carried and has to be imported for what it does."""
        self._refuse(module, line=f"import {module}", name=module)
        self.need_import("torch", "import torch")

    def need_import(self, name: str, line: str) -> None:
        if self.imports.setdefault(name, line) != line:
            self.reasons.append(f"two modules mean different things by {name}")

    def fresh(self, name: str) -> str:
        """`name`, or the like of it, that nothing in the text binds yet."""
        taken = (
            self.names
            | set(self.imports)
            | {n for p in self.parts.values() for s in p.text.statements for n in s.binds}
        )
        while name in taken:
            name += "_"
        self.names.add(name)
        return name

    # --- taking ---------------------------------------------------------------------------------------------------

    def _need_unbound(self, part: Part, name: str) -> None:
        if name == "__file__":
            self.reasons.append(f"{part.text.name} reads beside its own file (__file__)")
        elif hasattr(builtins, name) or name in _MODULE_NAMES:
            return
        elif (plain := literal(part.text.namespace.get(name))) and name in part.text.namespace:
            part.made.setdefault(-1, {})[name] = f"{name} = {plain.text}"
            self.need_literal_imports(plain.imports)
        else:
            self.reasons.append(f"no statement of {part.text.name} defines {name}")

    def need_literal_imports(self, modules: Collection[str]) -> None:
        for module in modules:
            self.need_import(module, f"import {module}")

    def _concerns(self, part: Part, statement: Statement) -> bool:
        """Whether it is more than the registration of an operator that is not wanted."""
        operators = carry_operators.operators_in(part.text, statement)
        return not operators or bool(operators & self.operators)

    def _need_operator_of(self, chain: Chain) -> None:
        if chain[:2] != ("torch", "ops") or len(chain) < 4 or chain[2] in carry_operators.TORCH_NAMESPACES:
            return
        qualified = f"{chain[2]}::{chain[3]}"
        if not self.need_operator(qualified):
            self.reasons.append(f"no Python source registers the operator {qualified}")

    def _settle(self, part: Part, statement: Statement, name: str) -> bool:
        """Bind `name` to the plain value that it has now, where the program computed it (from flags, say)."""
        node = statement.node
        if isinstance(node, (ast.Import, ast.ImportFrom, *DEFINITIONS)) or name not in part.text.namespace:
            return False
        plain = literal(part.text.namespace[name], mutable=False)
        value = getattr(node, "value", None)
        if plain is None or (isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_constant(value)):
            return False
        part.made.setdefault(statement.index, {})[name] = f"{name} = {plain.text}"
        self.need_literal_imports(plain.imports)
        return True

    def _take(self, part: Part, statement: Statement, chain: Chain, before: int) -> None:
        if isinstance(statement.node, (ast.Import, ast.ImportFrom)):
            return self._take_import(part, statement, chain)
        if (statement.index, before) in part.seen:
            return
        part.seen.add((statement.index, before))
        part.taken.add(statement.index)
        self.need_reads(part, statement.reads.now, statement.index)
        self.need_reads(part, statement.reads.later, before)
        for hint in statement.reads.hints:
            self._need_hint(part, hint)
        for qualified in carry_operators.operators_in(part.text, statement):
            self.need_operator(qualified)
        self.check_imports_inside(statement.node, part.text.namespace)

    def _need_hint(self, part: Part, chain: Chain) -> None:
        """An annotation that is never evaluated is worth an import that costs nothing, no more."""
        for statement in part.text.statements:
            node = statement.node
            if chain[0] in statement.binds and isinstance(node, (ast.Import, ast.ImportFrom)):
                module = node.names[0].name if isinstance(node, ast.Import) else absolute(node, part.text.namespace)
                if self._may_stay(module):
                    self._take_import(part, statement, chain)

    def check_imports_inside(self, node: ast.AST, namespace: Mapping[str, Any]) -> None:
        """Imports inside functions and blocks stay as they are: what they need must be there."""
        for part in ast.walk(node):
            if isinstance(part, ast.ImportFrom):
                modules = [absolute(part, namespace)]
            elif isinstance(part, ast.Import):
                modules = [alias.name for alias in part.names]
            else:
                continue
            # An import that is guarded and failed in the program is no need.
            self._refuse(*(m for m in modules if not self._may_stay(m) and m.partition(".")[0] in sys.modules))

    def _take_import(self, part: Part, statement: Statement, chain: Chain) -> None:
        node, name = statement.node, chain[0]
        if isinstance(node, ast.Import):
            alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
            return self._take_plain_import(part, alias, chain)
        assert isinstance(node, ast.ImportFrom)
        source = absolute(node, part.text.namespace)
        original = next((a.name for a in node.names if (a.asname or a.name) == name), name)
        line = f"from {source} import {original}" + (f" as {name}" if name != original else "")
        if self._may_stay(source):
            return self.need_import(name, line)
        value = getattr(sys.modules.get(source), original, None)
        if isinstance(value, ModuleType):
            return self._open_module(part, value, name, (), chain[1:], line)
        if not self._open(part, sys.modules.get(source), (original, *chain[1:])):
            return self._refuse(source, line=line, name=name)
        if name != original:
            part.made.setdefault(statement.index, {})[name] = f"{name} = {original}"

    def _take_plain_import(self, part: Part, alias: ast.alias, chain: Chain) -> None:
        line = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        if self._may_stay(alias.name):
            # `import torch` and `import torch.nn` bind the same name, and both may be wanted.
            return self.need_import(alias.asname or alias.name, line)
        path: Chain = () if alias.asname else tuple(alias.name.split(".")[1:])
        if chain[1 : 1 + len(path)] != path:
            return self._refuse(alias.name, line=line, name=chain[0])
        self._open_module(part, sys.modules.get(alias.name), chain[0], path, chain[1 + len(path) :], line)

    def _open_module(
        self, part: Part, module: ModuleType | None, name: str, path: Chain, rest: Chain, line: str
    ) -> None:
        """Take `name.path.rest`, where `name.path` is `module`, and let `name` hold what was taken."""
        if module and self._may_stay(module.__name__):
            return self.need_import(name, line)
        while rest and isinstance(inner := getattr(module, rest[0], None), ModuleType):
            module, path, rest = inner, (*path, rest[0]), rest[1:]
        if not rest or not self._open(part, module, rest):
            return self._refuse(module.__name__ if module else name, line=line, name=name)
        part.opened.setdefault(name, set()).add((*path, rest[0]))
        self.need_import("types", "import types")

    def _open(self, part: Part, module: ModuleType | None, chain: Chain) -> bool:
        """Take `chain` out of a module of the user's."""
        if module is None or not is_users(vars(module)):
            return False
        try:
            other = self.part(vars(module))
        except CannotCarry:
            return False
        if other is not part and other not in part.needs:
            part.needs.append(other)
        self.need(other, chain)
        return True

    def _may_stay(self, module: str) -> bool:
        return is_standard(module) or module.partition(".")[0] in self.alone

    def _refuse(self, *modules: str, line: str = "", name: str = "") -> None:
        if line:
            self.need_import(name, line)
        self.reasons += [f"it needs the module {module}" for module in modules]

    # --- writing --------------------------------------------------------------------------------------------------

    def source(self) -> str:
        self._check_collisions()
        blocks = [("\n".join(sorted(set(self.imports.values()), key=_import_order)), False)]
        for part in self._ordered():
            blocks += _blocks_of(part)
        blocks += [(text, text.startswith(("def ", "class ", "@", "async "))) for text in self.extra]
        lazy = any(part.text.lazy_annotations and part.taken for part in self.parts.values())
        blocks = [("from __future__ import annotations", False)] * lazy + [block for block in blocks if block[0]]
        text = ""
        for at, (block, spacious) in enumerate(blocks):
            if at:
                text += "\n\n\n" if spacious or blocks[at - 1][1] else "\n\n" if at == 1 else "\n"
            text += block
        return text + "\n" if text else ""

    def _ordered(self) -> list[Part]:
        """Modules before those that import them."""
        order: list[Part] = []
        entered: list[Part] = []

        def visit(part: Part) -> None:
            if any(part is p for p in entered):
                return
            entered.append(part)
            for other in part.needs:
                visit(other)
            order.append(part)

        for part in self.parts.values():
            visit(part)
        return order

    def _check_collisions(self) -> None:
        """All modules share one scope now: a name that two of them bind must mean the same in both."""
        meanings = dict.fromkeys(self.imports, "import")
        for part in self.parts.values():
            taken = [s for s in part.text.statements if s.index in part.taken]
            bound = {name: part.text.name for statement in taken for name in statement.binds}
            bound |= {name: line for lines in part.made.values() for name, line in lines.items()}
            bound |= {name: _namespace(name, paths) for name, paths in part.opened.items()}
            for name, meaning in sorted(bound.items()):
                if name != "_" and meanings.setdefault(name, meaning) != meaning:
                    self.reasons.append(f"two modules mean different things by {name}")


def _blocks_of(part: Part) -> list[tuple[str, bool]]:
    """The texts to write for a part, in order, each with whether it wants space around it."""
    blocks = [(line, False) for line in part.made.get(-1, {}).values()]
    opened = {name: _namespace(name, paths) for name, paths in part.opened.items()}
    for statement in part.text.statements:
        blocks += [(opened.pop(name), False) for name in sorted(statement.binds) if name in opened]
        if statement.index in part.taken:
            blocks.append((statement.text, isinstance(statement.node, DEFINITIONS)))
        blocks += [(line, False) for line in part.made.get(statement.index, {}).values()]
    return blocks


def _namespace(name: str, paths: Collection[Chain]) -> str:
    """An object that holds what was taken out of a module under the names that it had there."""

    def show(paths: Collection[Chain]) -> str:
        fields = []
        for head in sorted({path[0] for path in paths}):
            deeper = [path[1:] for path in paths if path[0] == head and len(path) > 1]
            fields.append(f"{head}={show(deeper) if deeper else head}")
        return f"types.SimpleNamespace({', '.join(fields)})"

    return f"{name} = {show(paths)}"


def _plain_import(binders: list[Statement], chain: Chain) -> ast.alias | None:
    """Of `import torch` and `import torch.nn`, which bind the same name, the one that goes furthest along `chain`."""
    if not isinstance(binders[-1].node, ast.Import):
        return None
    aliases = [alias for s in binders if isinstance(s.node, ast.Import) for alias in s.node.names if not alias.asname]
    fitting = [alias for alias in aliases if (parts := tuple(alias.name.split("."))) == chain[: len(parts)]]
    return max(fitting, key=lambda alias: len(alias.name), default=None)


def _is_filed_in(namespace: Mapping[str, Any], statement: Statement, name: str) -> bool:
    """Whether a decorator such as `@register("name")` put the definition into the table `name`."""
    node, table = statement.node, namespace.get(name)
    if not isinstance(node, DEFINITIONS) or not node.decorator_list or not isinstance(table, (dict, list, set)):
        return False
    defined = namespace.get(node.name)
    return any(value is defined for value in (table.values() if isinstance(table, dict) else table))


def _builds_on_itself(statement: Statement, name: str) -> bool:
    if isinstance(statement.node, DEFINITIONS):  # recursion is not; `@f.setter` and `class A(A)` are
        return any(chain[0] == name for chain in statement.reads.now)
    return any(chain[0] == name for chain in statement.reads.now | statement.reads.later)


def _is_constant(value: ast.expr | None) -> bool:
    try:
        ast.literal_eval(value or "")
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return False
    return True


def _import_order(line: str) -> tuple[bool, bool, str]:
    module = line.split()[1]
    return (not is_standard(module), line.startswith("from"), line)
