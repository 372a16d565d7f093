"""Dotted names of what graphs call, and back."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

_SEARCHED = (
    "torch",
    "torch.nn.functional",
    "torch._C._nn",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C._fft",
    "torch._C._sparse",
    "torch._C._nested",
    "torch.sparse",
    "torch.nested",
    "torch.functional",
    "torch._VF",
    "torch._C",
    "torch._C._functorch",
    "torch._C._autograd",
    "torch._functorch.predispatch",
    "torch.amp.autocast_mode",
    "torch.fx.experimental.symbolic_shapes",
    "torch.Tensor",
    "torch._C.TensorBase",
    "operator",
    "math",
    "builtins",
)


def lower_version(x: torch.Tensor) -> torch.Tensor:
    """Undoes the count of one write: for autograd, `x.data = y` is none.

    Dynamo writes it as Tensor.set_ and a function that it defines where it stands; this is that function, with a name.
    """
    torch._C._autograd._unsafe_set_version_counter((x,), (max(x._version - 1, 0),))
    return x


def _is_local_of_dynamo(function: Any, name: str) -> bool:
    of_dynamo = str(getattr(function, "__module__", "")).startswith("torch._dynamo.")
    return of_dynamo and str(getattr(function, "__qualname__", "")).endswith(f"<locals>.{name}")


@functools.cache
def _functions_by_id() -> dict[int, str]:
    found: dict[int, str] = {}
    for scope in _SEARCHED:
        holder = resolve(scope)
        for name in dir(holder):
            if name.startswith("__") and scope not in ("torch.Tensor", "torch._C.TensorBase"):
                continue
            value = getattr(holder, name, None)
            if callable(value):
                plain = name if scope == "builtins" else f"{scope}.{name}"
                found.setdefault(id(value), plain)
    return found


def qualified_name(function: Any) -> str | None:
    """The dotted name under which `resolve` finds `function` again, or None."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function._schema.name.replace('::', '.')}.{function._overloadname}"
    if isinstance(function, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{function.__name__}"
    if isinstance(function, torch._ops.OpOverloadPacket):
        return "torch.ops." + function._qualified_op_name.replace("::", ".")
    known = _functions_by_id().get(id(function))
    if known and resolve(known) is function:
        return known
    if _is_local_of_dynamo(function, "_lower_version_count_by_1"):
        return f"{__name__}.{lower_version.__name__}"
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    dotted = f"{module}.{name}"
    try:
        return dotted if resolve(dotted) is function else None
    except (ImportError, AttributeError):
        return None


def resolve(dotted: str) -> Any:
    """The object of a dotted name; raises AttributeError or ImportError.  Only call it with names that are allowed."""
    if "." not in dotted:
        return (
            getattr(importlib.import_module("builtins"), dotted)
            if dotted not in ("torch", "operator", "math", "builtins")
            else importlib.import_module(dotted)
        )
    parts = dotted.split(".")
    if parts[:3] == ["torch", "ops", "higher_order"]:
        importlib.import_module("torch._higher_order_ops")
    value: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(".".join(parts[:i]))
    return value
