"""Names in the place of which stands what they mean: a value that is bound once, a function that is called once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from torchsleuth.reduce.source.statements import numbered, replaced


def values(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one `name = value`, the value standing wherever the name was read."""
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or _bindings(tree, target.id) != 1 or not _reads(tree, target.id):
            continue
        new = copy.deepcopy(tree)
        own = numbered(new)[number][1]
        assert isinstance(own, ast.Assign)
        yield _Substitution({target.id: own.value}).visit(replaced(new, own, []))


def calls(tree: ast.Module) -> Iterator[ast.Module]:
    """With one call of a function of the file, which is a statement or an assignment, replaced by what it does."""
    functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
    for number, (_, statement) in enumerate(numbered(tree)):
        call = getattr(statement, "value", None) if isinstance(statement, (ast.Expr, ast.Assign, ast.Return)) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
            continue
        function = functions.get(call.func.id)
        if function is None or function is statement or not _plain(function, call):
            continue
        new = copy.deepcopy(tree)
        own = numbered(new)[number][1]
        new = replaced(new, own, _in_place(own, function, call))
        if not _reads(new, function.name):
            new.body = [s for s in new.body if not (isinstance(s, ast.FunctionDef) and s.name == function.name)]
        yield new


def tuples(tree: ast.Module) -> Iterator[ast.Module]:
    """`a = x` and `b = y` for `a, b = x, y`: larger for now, and open to what the other steps do."""
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            new = copy.deepcopy(tree)
            pairs = zip(target.elts, value.elts, strict=True)
            apart: list[ast.stmt] = [ast.Assign([copy.deepcopy(t)], copy.deepcopy(v), lineno=0) for t, v in pairs]
            yield replaced(new, numbered(new)[number][1], apart)


def results(tree: ast.Module) -> Iterator[ast.Module]:
    """With one call of a function that only returns something replaced by that; with f(a=1) for f(**{"a": 1})."""
    given = {s.name: _only_result(s) for s in tree.body if isinstance(s, ast.FunctionDef) and not s.args.args}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for number, call in enumerate(calls):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if given.get(name) is not None and not call.args and not call.keywords:
            new = copy.deepcopy(tree)
            own = [n for n in ast.walk(new) if isinstance(n, ast.Call)][number]
            Replaced(own, copy.deepcopy(given[name])).visit(new)
            yield new
        if any(k.arg is None and isinstance(k.value, ast.Dict) for k in call.keywords):
            new = copy.deepcopy(tree)
            own = [n for n in ast.walk(new) if isinstance(n, ast.Call)][number]
            own.keywords = [one for k in own.keywords for one in _spread(k)]
            yield new


def _only_result(function: ast.FunctionDef) -> ast.expr | None:
    last = function.body[-1]
    if len(function.body) > 1:
        return None
    if isinstance(last, ast.Return):
        return last.value or ast.Constant(None)
    return ast.Constant(None) if isinstance(last, ast.Pass) else None


def _spread(keyword: ast.keyword) -> list[ast.keyword]:
    if keyword.arg is not None or not isinstance(keyword.value, ast.Dict):
        return [keyword]
    pairs = zip(keyword.value.keys, keyword.value.values, strict=True)
    return [
        ast.keyword(str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant) and str(k.value).isidentifier()
    ]


class Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST | None) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old and self._new is not None:
            return self._new
        found: ast.AST = super().visit(node)
        return found


def parameters(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one parameter of a function or method, and what calls by its name give for it."""
    for number, (_, statement) in enumerate(numbered(tree)):
        if not isinstance(statement, ast.FunctionDef) or statement.args.posonlyargs:
            continue
        names = {statement.name}
        method = bool(statement.args.args) and statement.args.args[0].arg == "self"
        if statement.name == "__init__":
            names = {s.name for s in ast.walk(tree) if isinstance(s, ast.ClassDef) and statement in s.body}
        for index in range(int(method), len(statement.args.args)):
            new = copy.deepcopy(tree)
            own = numbered(new)[number][1]
            assert isinstance(own, ast.FunctionDef)
            given = index - (len(own.args.args) - len(own.args.defaults))  # defaults belong to the last ones
            if given >= 0:
                del own.args.defaults[given]
            gone = own.args.args.pop(index).arg
            for call in [n for n in ast.walk(new) if isinstance(n, ast.Call) and _called(n) in names]:
                del call.args[index - int(method) : index - int(method) + 1]
                call.keywords = [k for k in call.keywords if k.arg != gone]
            yield new


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _plain(function: ast.FunctionDef, call: ast.Call) -> bool:
    given = function.args
    rest = given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults
    returns = [n for s in function.body[:-1] for n in ast.walk(s) if isinstance(n, ast.Return)]
    return not rest and not returns and len(call.args) == len(given.args) and not function.decorator_list


def _in_place(statement: ast.stmt, function: ast.FunctionDef, call: ast.Call) -> list[ast.stmt]:
    body = copy.deepcopy(function.body)
    bound = [
        ast.Assign([ast.Name(parameter.arg, ast.Store())], copy.deepcopy(value), lineno=0)
        for parameter, value in zip(function.args.args, call.args, strict=True)
    ]
    last = body[-1]
    result: ast.expr = ast.Constant(None)
    if isinstance(last, ast.Return):
        body.pop()
        result = last.value or result
    after: list[ast.stmt] = []
    if isinstance(statement, (ast.Assign, ast.Return)):
        statement.value = result
        after = [statement]
    return [*bound, *body, *after]


def _bindings(tree: ast.AST, name: str) -> int:
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    return len(names) + sum(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(tree))


def _reads(tree: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return copy.deepcopy(value) if value is not None else node
