"""Arguments as Python expressions, and back.

Printing gives text that Python itself would read as the same value; reading walks the syntax tree and builds values
from constants and a few named constructors.  Nothing is evaluated.  A dotted name whose words are not all identifiers
(aten's random_.from, a module list's layers.0) is written with `getattr`, as Python itself would need it.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Callable, Collection

from torchsleuth.case import allowed
from torchsleuth.case.ir import Arg, Made, Name, Ref, Unknown
from torchsleuth.errors import DamagedCase, UnsafeGraph

_DEEPEST = 60  # no real argument nests deeper; a text that does is an attack on the stack
MOST_BITS = 4096  # no graph holds longer integers; a text that does is an attack on time


def show(value: Arg, name_of: Callable[[str], str] = str) -> str:
    """`value` as an expression; `name_of` renames references."""
    if isinstance(value, Ref):
        return name_of(value.name)
    if isinstance(value, Name):
        return show_dotted(value.dotted)
    if isinstance(value, Made):
        return f"{value.maker}({', '.join(show(a, name_of) for a in value.args)})"
    if isinstance(value, Unknown):
        return f"unknown({value.what!r})"
    if isinstance(value, float):
        return _show_float(value)
    if isinstance(value, complex):
        return f"complex({_show_float(value.real)}, {_show_float(value.imag)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, slice):
        return f"slice({', '.join(show(v, name_of) for v in (value.start, value.stop, value.step))})"
    if isinstance(value, list):
        return f"[{', '.join(show(v, name_of) for v in value)}]"
    if isinstance(value, tuple):
        inside = ", ".join(show(v, name_of) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(k, name_of)}: {show(v, name_of)}" for k, v in value.items()) + "}"
    return repr(value)


def _show_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'float("{value!r}")'


def is_word(text: str) -> bool:
    """Whether Python reads `text` back as this very name (it folds other letters to ASCII ones)."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def show_dotted(dotted: str) -> str:
    root, *words = dotted.split(".")
    text = root
    for word in words:
        text = f"{text}.{word}" if is_word(word) else f"getattr({text}, {word!r})"
    return text


def dotted_name(node: ast.expr) -> str | None:
    """What `show_dotted` wrote."""
    words: list[str] = []
    while (step := attribute(node)) is not None:
        node, word = step
        words.append(word)
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(words)])


def attribute(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The two parts of `value.word`, or of `getattr(value, 'word')`; None for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Name)
        or node.func.id != "getattr"
        or node.keywords
        or len(node.args) != 2
    ):
        return None
    value, word = node.args
    if not isinstance(word, ast.Constant) or not isinstance(word.value, str) or "." in word.value:
        return None
    return value, word.value


def read(node: ast.expr, known: Collection[str], depth: int = 0) -> Arg:
    """The value of an expression in which the names of `known` are references."""
    if depth > _DEEPEST:
        raise DamagedCase("The graph text nests values deeper than any graph does. Take a fresh capture.")

    def inner(child: ast.expr) -> Arg:
        return read(child, known, depth + 1)

    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            raise UnsafeGraph("The graph text holds bytes, which no graph does. Nothing was run.")
        if isinstance(node.value, int) and node.value.bit_length() > MOST_BITS:
            raise DamagedCase("The graph text holds an integer longer than any graph does. Take a fresh capture.")
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return Ref(node.id)
    if isinstance(node, ast.Name) or attribute(node):
        dotted = dotted_name(node)
        if dotted is None:
            raise UnsafeGraph(f"The graph text holds {ast.unparse(node)!r}, which is not a name. Nothing was run.")
        return Name(allowed.check_value(dotted))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = inner(node.operand)
        if isinstance(value, bool) or not isinstance(value, (int, float, complex)):
            raise DamagedCase(f"The graph text negates {ast.unparse(node.operand)!r}. Take a fresh capture.")
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Tuple):
        return tuple(inner(e) for e in node.elts)
    if isinstance(node, ast.List):
        return [inner(e) for e in node.elts]
    if isinstance(node, ast.Dict) and all(k is not None for k in node.keys):
        return _read_dict([inner(k) for k in node.keys if k is not None], [inner(v) for v in node.values])
    if isinstance(node, ast.Call) and not node.keywords:
        return _read_call(dotted_name(node.func) or "", [inner(a) for a in node.args])
    raise UnsafeGraph(f"The graph text holds {ast.unparse(node)[:80]!r}, which is not a constant. Nothing was run.")


def _read_dict(keys: list[Arg], values: list[Arg]) -> Arg:
    try:
        return dict(zip(keys, values, strict=True))
    except TypeError as error:  # a key that cannot be hashed
        raise DamagedCase(
            f"The graph text holds a dictionary that cannot be ({error}). Take a fresh capture."
        ) from None


def _read_call(maker: str, args: list[Arg]) -> Arg:
    if maker == "slice" and len(args) == 3:
        return slice(*args)
    if maker == "float" and args in (["inf"], ["-inf"], ["nan"]):
        return float(args[0])
    if maker == "complex" and len(args) == 2 and all(type(a) is float for a in args):
        return complex(*args)
    if maker == "unknown" and len(args) == 1 and isinstance(args[0], str):
        return Unknown(args[0])
    if maker == "value" and len(args) == 1:
        return args[0]
    if maker in allowed.MAKERS:
        return Made(maker, tuple(args))
    raise UnsafeGraph(f"The graph text calls {maker!r} inside an argument, which no graph does. Nothing was run.")
