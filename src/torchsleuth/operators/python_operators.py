"""Python's operators, as functions of its module `operator`: how they are written, and which assign in place."""

from __future__ import annotations

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "is_": "is", "is_not": "is not",
}  # fmt: skip
PREFIX = {"neg": "-", "pos": "+", "invert": "~", "not_": "not "}

# In-place operator -> the operator that returns a new value instead: `x += y` and `x + y`.
IN_PLACE = {
    f"i{name.rstrip('_')}": name
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
}
# Change their first argument and have no form that returns a new value.
ITEM_ASSIGNMENTS = frozenset({"setitem", "delitem"})


def augmented_sign(name: str) -> str | None:
    """`+=` for iadd; None if it is no augmented assignment."""
    return f"{INFIX[IN_PLACE[name]]}=" if name in IN_PLACE else None
