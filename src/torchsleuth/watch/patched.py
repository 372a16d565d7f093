"""Modules of the program's that have put functions of their own into torch's compiler.

A lowering, a decomposition, a pattern or a pass that somebody registered, a function of torch's that somebody replaced:
a Case compiles as the program did only where the module that did so is imported first.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from torchsleuth.case.model import Code

# Where compilers keep what they are made of.
_COMPILER = ("torch._inductor", "torch._functorch", "torch._dynamo", "torch._decomp", "torch._refs", "torch.fx.passes")
# What torch itself is made of, or brings along.
_OF_TORCH = {
    "torch", "torchgen", "functorch", "torchsleuth", "torchsleuth_autoload", "sympy", "triton", "numpy", "mpmath",
    "typing_extensions", "networkx", "jinja2", "tqdm", "packaging", "filelock", "fsspec", "optree", "yaml", "cutlass",
    "cuda", "setuptools", "einops", "psutil", "_pytest", "pytest", "__main__", "__mp_main__",
}  # fmt: skip
_PATTERNS = "PatternMatcherPass"
_LONGEST = 20_000  # characters of a module that is carried whole


def code_that_patches() -> tuple[Code, ...]:
    """What a Case must run first: each such module's source where that stands alone, else its import."""
    return _code(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _code(_: int) -> tuple[Code, ...]:
    """Found anew when something was imported since: who patches does so then, and looking takes a tenth of a second."""
    return tuple(_carry(name) for name in modules_that_patch())


def _carry(name: str) -> Code:
    why = "it changes torch's compiler when it is imported"
    try:
        source = inspect.getsource(sys.modules[name])
        alone = len(source) < _LONGEST and imported_by(source) <= {"torch", *sys.stdlib_module_names}
    except (OSError, TypeError, SyntaxError):
        source, alone = "", False
    if alone:
        lines = [line for line in source.splitlines() if line != "import torch"]  # which every script begins with
        return Code("patch of the compiler", name, "\n".join(lines).strip(), (), True)
    return Code("patch of the compiler", name, "", (name,), False, why)


def imported_by(source: str) -> set[str]:
    """Top-level modules that a source imports; a relative import counts as one that nobody else has."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else str(node.module).partition(".")[0])
    return found


def modules_that_patch() -> tuple[str, ...]:
    """By the names they are imported under, in order; the program's own script cannot be imported and is left out."""
    found: dict[str, None] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_COMPILER) and isinstance(module, ModuleType):
            for function in _functions(list(vars(module).values())):
                owner = getattr(function, "__module__", None)
                if isinstance(owner, str) and _is_foreign(owner):
                    found[owner] = None
    return tuple(sorted(found))


def _is_foreign(owner: str) -> bool:
    top = owner.partition(".")[0]
    return top not in _OF_TORCH and top not in sys.stdlib_module_names and owner in sys.modules


def _functions(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__.startswith(_COMPILER):  # libraries add to nn.Module
            yield from (f for f in (_plain(v) for v in list(vars(value).values())) if isinstance(f, FunctionType))
        elif isinstance(value, Mapping):
            yield from (f for key, f in list(value.items()) if _is_operator(key) and isinstance(f, FunctionType))
        elif isinstance(value, list) and value and type(value[0]).__name__ == _PATTERNS:
            yield from _functions(value)
        elif type(value).__name__ == _PATTERNS:  # by name: asking any object for an attribute may do anything
            yield from _handlers(vars(value).get("patterns") or {})


def _is_operator(key: object) -> bool:
    """Registries of lowerings and decompositions go by operator; other tables may hold anything of the program's."""
    return type(key).__name__ in ("OpOverload", "OpOverloadPacket")


def _plain(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _handlers(patterns: Mapping[Any, Any]) -> Iterator[Any]:
    for entries in list(patterns.values()):
        for entry in entries if isinstance(entries, (list, tuple)) else ():
            handler = getattr(entry, "handler", None)
            if isinstance(handler, FunctionType):
                yield handler
