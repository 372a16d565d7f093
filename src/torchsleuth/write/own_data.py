"""What a script holds of the user's: numbers that stand in it as literals, and lines of their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Fewer numbers than these are sizes, strides and constants of the program, not data.
_LEAST_OF_TENSOR = 5
_LEAST_OF_LIST = 9
_MAKE_TENSORS = {"tensor", "as_tensor", "array", "asarray"}
_NUMBER_TYPES = (bool, int, float, complex)
_BITS = {
    "bool": 8, "uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "float16": 16, "bfloat16": 16,
    "float32": 32, "float64": 64, "complex64": 64, "complex128": 128,
}  # fmt: skip


@dataclass(frozen=True)
class OwnData:
    numbers: int = 0  # that stand in the script as literals
    nbytes: int = 0  # of them, as tensors
    source_lines: int = 0  # of the user's own source

    @property
    def phrases(self) -> tuple[str, ...]:
        """`holds 64 numbers of your data as literals`, and the same of source; nothing where there is none."""
        found = []
        if self.numbers:
            found.append(f"holds {self.numbers:,} numbers of your data as literals")
        if self.source_lines:
            found.append(f"holds {self.source_lines:,} line{'s' * (self.source_lines != 1)} of your source")
        return tuple(found)


NOTHING = OwnData()


def of_script(text: str, source_lines: int = 0) -> OwnData:
    """What the text of a script holds; how many lines are the user's own is known to who wrote it."""
    found = list(_literals(text))
    return OwnData(sum(count for count, _ in found), sum(nbytes for _, nbytes in found), source_lines)


def of_repro(repro: Mapping[str, Any], text: str) -> OwnData:
    """The same of a `repro` of result.json and its script."""
    return of_script(text, int(repro.get("source_lines") or 0))


def of_case(case: Mapping[str, Any]) -> OwnData:
    """What a case.json holds: values of inputs, and pieces of source that the Case carries."""
    surroundings = case.get("surroundings") or {}
    codes = [*(surroundings.get("code") or ()), (surroundings.get("backend") or {}).get("code") or {}]
    lines = sum(count_lines(str(code.get("source") or "")) for code in codes)
    tensors = [t for t in (*(case.get("inputs") or ()), *(case.get("constants") or ())) if isinstance(t, dict)]
    numbers = [n for t in tensors if (n := len(t.get("literal") or ())) >= _LEAST_OF_TENSOR]
    return OwnData(sum(numbers), 8 * sum(numbers), lines)


def count_lines(source: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in source.splitlines())


def _literals(text: str) -> Iterator[tuple[int, int]]:
    """For each literal that is large enough to be data: how many numbers, and their bytes."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    todo: list[tuple[ast.AST, bool, int]] = [(tree, False, 0)]  # node, whether it becomes a tensor, bits of a number
    while todo:
        node, becomes_tensor, bits = todo.pop()
        if isinstance(node, ast.Call) and _called(node) in _MAKE_TENSORS and node.args:
            todo.append((node.args[0], True, _bits_asked(node)))
            todo += [(rest, False, 0) for rest in (*node.args[1:], *node.keywords)]
            continue
        values = _numbers(node) if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else None
        if values is None:
            todo += [(child, False, 0) for child in ast.iter_child_nodes(node)]
        elif len(values) >= (_LEAST_OF_TENSOR if becomes_tensor else _LEAST_OF_LIST):
            yield len(values), len(values) * (bits or _bits_of(values)) // 8


def _numbers(node: ast.expr) -> list[object] | None:
    """The numbers of nested lists of nothing else; None where something else is in them."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = [_numbers(element) for element in node.elts]
        return None if any(part is None for part in parts) else [value for part in parts for value in part or ()]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _numbers(node.operand)
    if isinstance(node, ast.Call) and _called(node) == "float" and len(node.args) == 1:
        return [0.0] if isinstance(node.args[0], ast.Constant) else None
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, _NUMBER_TYPES) else None


def _called(node: ast.Call) -> str:
    """The last word of the function that is called; empty where it has no name."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node.func, (ast.Attribute, ast.Name)) else ""


def _bits_asked(node: ast.Call) -> int:
    """Of the dtype that the call names; 0 where it names none."""
    asked = next((k.value for k in node.keywords if k.arg == "dtype"), None)
    return _BITS.get(asked.attr, 0) if isinstance(asked, ast.Attribute) else 0


def _bits_of(values: list[object]) -> int:
    """Of the dtype that torch.tensor chooses."""
    if all(isinstance(value, bool) for value in values):
        return 8
    return 64 if all(isinstance(value, int) for value in values) else 32
