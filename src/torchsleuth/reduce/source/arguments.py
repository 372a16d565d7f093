"""What an argument parser gives by default, in the place of the arguments."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from torchsleuth.reduce.source.inlining import Replaced


def defaults(tree: ast.Module) -> Iterator[ast.Module]:
    """With every `args.name` replaced by the default of `--name`, one name at a time."""
    for name, value in _defaults(tree).items():
        new = copy.deepcopy(tree)
        reads = [n for n in ast.walk(new) if isinstance(n, ast.Attribute) and n.attr == name and _is_plain(n)]
        for read in reads:
            Replaced(read, copy.deepcopy(value)).visit(new)
        if reads:
            yield new


def _defaults(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if call.func.attr != "add_argument" or not flags:
            continue
        given = {k.arg: k.value for k in call.keywords if k.arg}
        long = next((f for f in flags if f.startswith("--")), flags[0])
        destination = given.get("dest")
        name = destination.value if isinstance(destination, ast.Constant) else long.lstrip("-").replace("-", "_")
        action = given.get("action")
        switch = isinstance(action, ast.Constant) and action.value == "store_true"
        default = given.get("default", ast.Constant(False) if switch else None)
        if isinstance(default, ast.expr) and isinstance(name, str):
            found[name] = default
    return found


def _is_plain(node: ast.Attribute) -> bool:
    """`args.name` or `parser.parse_args().name`; not `self.name`, and not where it is set."""
    ours = isinstance(node.value, ast.Name) and node.value.id != "self"
    return isinstance(node.ctx, ast.Load) and (ours or isinstance(node.value, ast.Call))
