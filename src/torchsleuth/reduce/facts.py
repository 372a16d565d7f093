"""What every value of a graph looks like, in plain numbers: so that any of them can become an input.

Taken from the shapes that Dynamo noted, with symbols replaced by what they stood for; a probe (one eager run in a
process of its own) adds what shapes do not say: ranges of integers, plain numbers, gradients.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchsleuth.case.ir import Value
from torchsleuth.case.model import Case, Scalar, Tensor
from torchsleuth.case.program.values import contiguous_stride


@dataclass(frozen=True)
class Facts:
    tensors: Mapping[str, Tensor] = field(default_factory=dict)  # node -> a tensor like its value
    numbers: Mapping[str, Any] = field(default_factory=dict)  # node -> its value, where that is a plain constant

    def known_better(self, by: Facts) -> Facts:
        """These, and over them what another source says."""
        return Facts({**self.tensors, **by.tensors}, {**self.numbers, **by.numbers})


def from_graph(case: Case) -> Facts:
    symbols = symbol_values(case)
    found: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for node, value in zip(case.graph.placeholders, case.inputs, strict=True):
        if isinstance(value, Tensor):
            found[node.name] = value
        elif isinstance(value, Scalar):
            numbers[node.name] = value.value
    for node in case.graph.nodes:
        if node.value is not None and node.name not in found:
            tensor = concrete(node.value, symbols)
            if tensor is not None:
                found[node.name] = tensor
    return Facts(found, numbers)


def symbol_values(case: Case) -> dict[str, int]:
    known: dict[str, int] = {}
    for node, value in zip(case.graph.placeholders, case.inputs, strict=True):
        if isinstance(value, Scalar) and value.symbol and isinstance(value.value, int):
            known[value.symbol] = int(value.value)
        elif isinstance(value, Tensor) and node.value:
            pairs = zip(node.value.shape, value.shape, strict=False)
            known |= {symbol: size for symbol, size in pairs if isinstance(symbol, str) and symbol.isidentifier()}
    return known


def concrete(value: Value, symbols: Mapping[str, int]) -> Tensor | None:
    """A tensor of this look with plain sizes, or None where a symbol is unknown."""
    try:
        shape = tuple(size_of(s, symbols) for s in value.shape)
        stride = (
            tuple(size_of(s, symbols) for s in value.stride) if value.stride is not None else contiguous_stride(shape)
        )
    except (KeyError, ValueError, SyntaxError, ZeroDivisionError):
        return None
    dynamic = tuple(i for i, size in enumerate(value.shape) if isinstance(size, str))
    return Tensor(value.dtype, shape, stride, device=value.device, dynamic=dynamic)


_SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def size_of(expression: int | str, symbols: Mapping[str, int]) -> int:
    """The number that a symbolic size stood for; nothing is evaluated but arithmetic."""
    if isinstance(expression, int):
        return expression
    return _number(ast.parse(expression, mode="eval").body, symbols)


def _number(node: ast.expr, symbols: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, symbols)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_number(node.left, symbols), _number(node.right, symbols))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_number(a, symbols) for a in node.args]
        if node.func.id in ("Max", "Min"):
            return max(arguments) if node.func.id == "Max" else min(arguments)
        if node.func.id in ("Mod", "PythonMod") and len(arguments) == 2:
            return arguments[0] % arguments[1]
    raise ValueError(ast.unparse(node))
