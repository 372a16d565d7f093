"""Where the user's Python registers a custom operator: its definition, kernels, fake, autograd and the rest.

Both styles are known: `torch.library.custom_op("ns::op", ...)` with all that is called with that name, and a
`Library("ns", ...)` with its `define` and `impl`.  What goes through the operator's own variable (`op.register_fake`)
is found as a change of that variable, by `carry_slice`.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchsleuth import torch_api
from torchsleuth.case.carry_names import chain_of
from torchsleuth.case.carry_text import ModuleText, Statement, is_users, user_modules

TORCH_NAMESPACES = frozenset(
    "aten prims prim higher_order inductor inductor_prims quantized quantized_decomposed _c10d_functional "
    "_c10d_functional_autograd c10d c10d_functional mkldnn mkldnn_prepacked onednn sparse profiler rngprims symm_mem "
    "_dtensor _quantized debugprims static_runtime fsdp streams bucketing export xpu".split()
)
_QUALIFIED = re.compile(r"(\w+::\w+)(?:\.\w+)?(?:\(.*)?", re.S)
_REGISTERING = re.compile(r"(custom_op|triton_op|define|impl|impl_abstract|_?register_\w+)")


def namespaces(qualified: str, known: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Globals of the user's modules that may register `qualified`, without those that cannot."""
    functions = [f.__globals__ for f in torch_api.custom_op_functions(qualified)]
    candidates = [*known, *functions, *(vars(module) for module in user_modules())]
    unique = {id(space): space for space in candidates if is_users(space)}
    return [space for space in unique.values() if _mentions(space, qualified)]


def registrations(text: ModuleText, qualified: str) -> Iterator[Statement]:
    """Statements of the module that register something for `qualified`."""
    for statement in text.statements:
        if qualified in operators_in(text, statement):
            yield statement


def operators_in(text: ModuleText, statement: Statement) -> frozenset[str]:
    return _by_statement(text).get(statement.index, frozenset())


@functools.lru_cache(maxsize=64)
def _by_statement(text: ModuleText) -> dict[int, frozenset[str]]:
    libraries = _libraries(text)
    found: dict[int, frozenset[str]] = {}
    inside_functions: dict[str, frozenset[str]] = {}
    for statement in text.statements:
        operators = frozenset(_operators(statement.node, text, libraries))
        if not operators:
            continue
        found[statement.index] = operators
        if isinstance(statement.node, ast.FunctionDef):
            body = ast.Module(statement.node.body, [])
            inside_functions[statement.node.name] = frozenset(_operators(body, text, libraries))
    for statement in text.statements:  # a function that registers does so when it is called
        value = statement.node.value if isinstance(statement.node, ast.Expr) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            called = inside_functions.get(value.func.id, frozenset())
            found[statement.index] = found.get(statement.index, frozenset()) | called
    return found


def _operators(node: ast.AST, text: ModuleText, libraries: Mapping[str, str]) -> Iterator[str]:
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        function = chain_of(call.func)
        if function is None or not _REGISTERING.fullmatch(function[-1]):
            continue
        arguments = [*call.args, *(k.value for k in call.keywords)]
        strings = [s for s in (_string(a, text.namespace) for a in arguments) if s]
        for string in strings:
            if named := _QUALIFIED.fullmatch(string):
                yield named.group(1)
        holders = [function[0], *(a.id for a in arguments if isinstance(a, ast.Name))]
        for space in {libraries[h] for h in holders if h in libraries}:
            if strings and (name := re.match(r"\w+", strings[0])) and "::" not in strings[0]:
                yield f"{space}::{name.group()}"


def _libraries(text: ModuleText) -> dict[str, str]:
    """Variables that hold a torch.library.Library, each with its namespace."""
    found = {
        name: space
        for name, value in text.namespace.items()
        if type(value).__name__ == "Library" and isinstance(space := getattr(value, "ns", None), str)
    }
    for statement in text.statements:  # those that are local to a function
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
                function, space = chain_of(node.value.func), _string(node.value.args[0], text.namespace)
                if function and function[-1] == "Library" and space:
                    found.update((target.id, space) for target in node.targets if isinstance(target, ast.Name))
    return found


def _string(node: ast.expr, namespace: Mapping[str, Any]) -> str | None:
    """The string that an expression of constants and global names has."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        value = namespace.get(node.id)
        return value if isinstance(value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [_string(v.value if isinstance(v, ast.FormattedValue) else v, namespace) for v in node.values]
        return "".join(p for p in parts if p) if all(parts) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _string(node.left, namespace), _string(node.right, namespace)
        return left + right if left and right else None
    return None


def _mentions(namespace: Mapping[str, Any], qualified: str) -> bool:
    file = namespace.get("__file__")
    source = (
        "".join(linecache.getlines(file)) if isinstance(file, str) else "\n".join(map(str, namespace.get("In", ())))
    )
    space, _, name = qualified.partition("::")
    return space in source and name in source
