"""Carry the user's own code inside a repro, as source.

A backend, a function, a custom operator or a Triton kernel that a Case needs is cut out of the module that defines it,
with all it needs and nothing else, so that the repro runs where only torch is installed.  What cannot be cut out is
said: `stands_alone` is false, `why_not` names what is missing, and the source imports it.

`carry_names` reads the syntax, `carry_text` a module, `carry_slice` collects statements, `carry_objects` turns living
objects into expressions, `carry_operators` knows how operators are registered.  An object that wants to be carried in
another way has a method `__torchsleuth_source__()` that returns (source, expression).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import FunctionType

from torchsleuth import torch_api
from torchsleuth.case.carry_objects import ObjectWriter
from torchsleuth.case.carry_operators import TORCH_NAMESPACES
from torchsleuth.case.carry_slice import Slicer
from torchsleuth.case.carry_text import CannotCarry, is_standard

_WITH_TORCH = frozenset(("functorch", "torchgen"))  # packages that torch's own wheel installs


@dataclass(frozen=True)
class Carried:
    """Source of the user's, and how to speak of what it defines.

    A `from __future__` import, where there is one, is the first line; the rest may follow other code.
    """

    source: str
    imports: tuple[str, ...]  # top-level modules that the source imports
    name: str  # an expression that is the object once the source ran; empty where nothing could be carried
    stands_alone: bool
    why_not: str = ""


def carry_object(value: object, alone: Collection[str] = ("torch",)) -> Carried:
    """A function, class, partial, bound method or instance, with all that it needs but the packages in `alone`."""
    return carry_objects([value], alone)[0]


def carry_objects(values: Collection[object], alone: Collection[str] = ("torch",)) -> list[Carried]:
    """Several objects, each with the one source that defines them all; those that fail do not spoil the others."""
    failed: dict[int, Carried] = {}
    while True:
        slicer = _slicer(alone)
        writer = ObjectWriter(slicer)
        names: dict[int, str] = {}
        for at, value in enumerate(values):
            if at in failed:
                continue
            try:
                names[at] = writer.expression(value)
            except CannotCarry as error:
                failed[at] = _nothing(error)
                break  # what the failure left behind in the slicer must not stay
        else:
            return [failed[at] if at in failed else _finish(slicer, names[at]) for at in range(len(values))]


def carry_operator(qualified: str, alone: Collection[str] = ("torch",)) -> Carried:
    """A custom operator "namespace::name": its definition, kernels, fake, autograd formula and the rest."""
    namespace, _, name = qualified.partition("::")
    slicer = _slicer(alone)

    def collect() -> str:
        if namespace in TORCH_NAMESPACES:
            slicer.need_import("torch", "import torch")
        elif not slicer.need_operator(qualified):
            slicer.need_foreign(_registering_module(qualified))
        return f"torch.ops.{namespace}.{name.partition('.')[0]}"

    return _carried(slicer, collect)


def carry_triton_kernel(kernel: object, alone: Collection[str] = ("torch", "triton")) -> Carried:
    """A function under `triton.jit`, with or without autotuning around it."""
    slicer = _slicer(alone)
    function = kernel
    while hasattr(function, "fn") and not isinstance(function, FunctionType):
        function = function.fn
    if not isinstance(function, FunctionType):
        return _nothing(CannotCarry(f"{type(kernel).__name__} holds no Python function"))
    return _carried(slicer, lambda: ObjectWriter(slicer).kernel(kernel, function))


def _slicer(alone: Collection[str]) -> Slicer:
    return Slicer(frozenset(alone) | (_WITH_TORCH if "torch" in alone else frozenset()))


def _registering_module(qualified: str) -> str:
    """The installed module that registers an operator, as far as Python knows."""
    for function in torch_api.custom_op_functions(qualified):
        if not function.__module__.startswith("torch."):  # torch wraps some of them
            return function.__module__
    namespace = qualified.partition("::")[0]
    if namespace in sys.modules:  # torchvision::nms and the like
        return namespace
    raise CannotCarry(f"no Python source registers the operator {qualified}; it may come from a compiled library")


def _carried(slicer: Slicer, collect: Callable[[], str]) -> Carried:
    try:
        return _finish(slicer, collect())
    except CannotCarry as error:
        return _nothing(error)


def _nothing(error: CannotCarry) -> Carried:
    return Carried("", (), "", False, str(error))


def _finish(slicer: Slicer, name: str) -> Carried:
    source = slicer.source()
    try:
        compile(source, "<carried>", "exec")
        compile(name, "<carried>", "eval")
    except SyntaxError as error:
        return _nothing(CannotCarry(f"the source cut out does not compile: {error}"))
    imports = _imported(source)
    foreign = [module for module in imports if not is_standard(module) and module not in slicer.alone]
    reasons = list(dict.fromkeys(slicer.reasons))
    reasons += [f"it needs the module {m}" for m in foreign if not any(m in reason for reason in reasons)]
    return Carried(source, imports, name, not reasons, "; ".join(reasons))


def _imported(source: str) -> tuple[str, ...]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
    return tuple(sorted({module.partition(".")[0] for module in modules} - {"__future__"}))
