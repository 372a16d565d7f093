"""Classes of modules: a part in the place of the whole, a function in the place of a class that only computes."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator

from torchsleuth.reduce.source.inlining import Replaced
from torchsleuth.reduce.source.statements import numbered, replaced


def parts(tree: ast.Module) -> Iterator[ast.Module]:
    """With one `Whole(...)` replaced by a `Part(...)` that stands elsewhere in the file."""
    classes = {s.name for s in tree.body if isinstance(s, ast.ClassDef)}
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _class(n) in classes]
    for number, whole in enumerate(made):
        seen = {ast.dump(whole)}
        for part in made:
            if _class(part) == _class(whole) or ast.dump(part) in seen:
                continue
            seen.add(ast.dump(part))
            new = copy.deepcopy(tree)
            own = [n for n in ast.walk(new) if isinstance(n, ast.Call) and _class(n) in classes][number]
            Replaced(own, copy.deepcopy(part)).visit(new)
            yield new


def inputs(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one parameter of `forward`, and what calls of objects give for it.

    Which calls those are, a text does not say: those inside classes, those outside, or both are tried.
    """
    known = {s.name for s in ast.walk(tree) if isinstance(s, (ast.FunctionDef, ast.ClassDef))} - {"forward"}
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.FunctionDef) or statement.name not in ("forward", "__call__"):
            continue
        for index in range(1, len(statement.args.args)):
            for places in ((True, False), (False,), (True,)):
                new = copy.deepcopy(tree)
                own = numbered(new)[number][1]
                assert isinstance(own, ast.FunctionDef)
                _without(own, index)
                changed = 0
                for call, inside in _calls(new):
                    if inside in places and len(call.args) >= index and not _is_known(call.func, known):
                        del call.args[index - 1]
                        changed += 1
                if changed:
                    yield new


def attributes(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one `self.name = value` of a class, the value standing wherever its methods read the name."""
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        name = _of_self(statement.targets[0])
        if not name or not any(isinstance(n.ctx, ast.Load) for n in _selves(tree, name)):
            continue
        if any(not isinstance(n.ctx, ast.Load) for n in _selves(tree, name) if n is not statement.targets[0]):
            continue
        new = copy.deepcopy(tree)
        own = numbered(new)[number][1]
        assert isinstance(own, ast.Assign)
        replaced(new, own, [])
        for read in _selves(new, name):
            Replaced(read, copy.deepcopy(own.value)).visit(new)
        yield new


def _of_self(node: ast.expr) -> str:
    given = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if given and isinstance(node, ast.Attribute) else ""


def _selves(tree: ast.Module, name: str) -> list[ast.Attribute]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _of_self(n) == name]


def functions(tree: ast.Module) -> Iterator[ast.Module]:
    """`def net(x)` for a class whose only method is `forward`, and that keeps nothing."""
    for statement in tree.body:
        if not isinstance(statement, ast.ClassDef) or len(statement.body) != 1:
            continue
        method = statement.body[0]
        if not isinstance(method, ast.FunctionDef) or method.name != "forward" or not method.args.args:
            continue
        self = method.args.args[0].arg
        if any(isinstance(n, ast.Name) and n.id == self for s in method.body for n in ast.walk(s)):
            continue
        name = _free(tree, statement.name.lower())
        new = copy.deepcopy(tree)
        own = next(s for s in new.body if isinstance(s, ast.ClassDef) and s.name == statement.name)
        function = copy.deepcopy(method)
        function.name = name
        function.args.args.pop(0)
        replaced(new, own, [function])
        for call in [n for n in ast.walk(new) if isinstance(n, ast.Call) and _class(n) == statement.name]:
            Replaced(call, ast.Name(name, ast.Load())).visit(new)
        yield _compiled_by_name(new)


def _compiled_by_name(tree: ast.Module) -> ast.Module:
    """`net = torch.compile(net)` for `net.compile()`, which functions do not have."""
    for _, statement in numbered(tree):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
            target = call.func.value
            if isinstance(target, ast.Name) and target.id != "torch":
                compiler = ast.Attribute(ast.Name("torch", ast.Load()), "compile", ast.Load())
                made = ast.Call(compiler, [ast.Name(target.id, ast.Load()), *call.args], call.keywords)
                replaced(tree, statement, [ast.Assign([ast.Name(target.id, ast.Store())], made, lineno=0)])
    return tree


def _without(function: ast.FunctionDef, index: int) -> None:
    given = index - (len(function.args.args) - len(function.args.defaults))  # defaults belong to the last ones
    if given >= 0:
        del function.args.defaults[given]
    del function.args.args[index]


def _calls(tree: ast.Module) -> list[tuple[ast.Call, bool]]:
    """Every call, and whether it stands inside a class."""
    inside = {id(n) for s in tree.body if isinstance(s, ast.ClassDef) for n in ast.walk(s)}
    return [(n, id(n) in inside) for n in ast.walk(tree) if isinstance(n, ast.Call)]


def _is_known(function: ast.expr, known: set[str]) -> bool:
    """Functions and classes of the file, and whatever is reached through torch: no object that is called."""
    root = function
    while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    if isinstance(root, ast.Name) and root.id in ("torch", "nn", "F", "super"):
        return True
    return isinstance(function, ast.Name) and (function.id in known or hasattr(builtins, function.id))


def _class(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _free(tree: ast.Module, wanted: str) -> str:
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return wanted if wanted not in taken else f"{wanted}_forward"
