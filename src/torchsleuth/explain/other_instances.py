"""Modules that are compiled separately and share one function, under which torch keeps all of them.

The function is `forward` of their class, or torch's own `inner`, which calls modules of torch's own classes.  torch
compiles it anew for the second module, and reports a guard that failed.  It is the first compilation of that module,
and no recompilation of anything that was compiled before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torchsleuth.explain.break_text import Place, is_machinery
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.guard_failures import GuardFailure, parse_reason
from torchsleuth.explain.recompile_advice import kind_of


@dataclass(frozen=True)
class OtherInstance:
    """First compilations of other modules of one class: of a user's class by the guard that failed."""

    module_class: str
    place: Place  # the function, or the line that calls the module where the function is torch's own
    causes: tuple[str, ...]  # the guards that failed
    values: tuple[str, ...]
    count: int
    instances: int | None  # of this class that torch came to compile; None: the trace alone does not tell them apart
    limit_hit: bool
    compile_ids: tuple[str, ...]
    advice: str
    hint: str = ""


def is_other_instance(compile: Compile, before: Sequence[Compile]) -> bool:
    """Whether a guard on the module failed at the first compilation of a module; `before`: earlier ones of its frame.

    In a trace made without torchsleuth no module has a number: there, what calls a module of torch's own is taken for
    another module, since that function holds nothing else that could differ, and is told as not known.
    """
    if not compile.reasons or not any(on_module(compile, parse_reason(text)) for text in compile.reasons):
        return False
    if compile.instance:
        module = (compile.module_class, compile.instance)
        return all(each.instance and (each.module_class, each.instance) != module for each in before)
    return calls_modules(compile)


def calls_modules(compile: Compile) -> bool:
    """Whether the frame is torch's own function that calls a module handed to it."""
    return bool(compile.module_class) and is_machinery(compile.file)


def on_module(compile: Compile, reason: GuardFailure) -> bool:
    name = compile.module_name or ("fn" if calls_modules(compile) else "")
    return bool(name) and re.search(rf"(?<![\w.]){name}(?![\w])", reason.guard) is not None


def advice_on_instances(reason: GuardFailure, values: Sequence[str], instances: int | None) -> str:
    shared = (
        "torch counts all of them together: after torch._dynamo.config.recompile_limit (8 unless set) the next one "
        "runs uncompiled. With more modules than that, set it higher before compiling, or compile one module that "
        "holds them all."
    )
    if instances is None:
        return (
            "If these are several modules, each compiled separately, it is the first compilation of each, and there is "
            f"nothing to change. {shared} If it is one module, it was changed between calls: change it before the "
            "first call. The trace does not tell which."
        )
    return f"Each module is compiled separately; none was compiled twice for this. {shared}{_sharing(reason, values)}"


def _sharing(reason: GuardFailure, values: Sequence[str]) -> str:
    attribute = re.fullmatch(r"\w+(\.\w+)+", reason.subject)
    if attribute is None or {kind_of(value) for value in values} != {"int"}:
        return ""
    return (
        f" To have one compilation serve them all: keep {reason.subject} in a tensor, or set "
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True before compiling."
    )
