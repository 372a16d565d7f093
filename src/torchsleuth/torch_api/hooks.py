"""What hooks at the compiler need to stay unseen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import CACHEABLE_COMPILER, Hook


def unwrap_backend(wrapper: Any) -> Any:
    """What torch.compile was given, behind Dynamo's own wrapper."""
    return getattr(wrapper, "_torchdynamo_orig_backend", wrapper)


def is_control_flow(error: BaseException) -> bool:
    """Exceptions by which Dynamo talks to itself and the caller of a frame: not failures."""
    return type(error).__name__ in (
        "SkipFrame",
        "RestartAnalysis",
        "TensorifyScalarRestartAnalysis",
        "SpeculationRestartAnalysis",
    )


def copy_call_marks(compiled: Any, wrapper: Any) -> None:
    """Attributes by which Dynamo and AOTAutograd recognise compiled functions."""
    for mark in ("_boxed_call", "_torchdynamo_orig_callable"):
        if hasattr(compiled, mark):
            setattr(wrapper, mark, getattr(compiled, mark))


def boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = importlib.import_module("functorch.compile").make_boxed_func(function)
    return made


def is_cacheable_compiler(compiler: Any) -> bool:
    """Inductor's compilers, which AOTAutograd's cache knows by their class."""
    return isinstance(compiler, attaching.read(CACHEABLE_COMPILER))


def save_no_graphs(cache: Hook) -> None:
    """Write nothing to one of the caches of graphs; what is there is still read."""
    attaching.put(cache, staticmethod(lambda *_, **__: None))


def is_backward_code(code: Any) -> bool:
    kwargs = getattr(code, "fx_kwargs", None) or {}
    return bool(kwargs.get("is_backward"))


def unboxed(value: Any) -> Any:
    """The plain value of Inductor's boxed booleans."""
    return value.value if type(value).__name__ in ("BoxedBool", "BoxedDeviceIndex") else value


def symbols_of(module: torch.fx.GraphModule) -> dict[str, dict[str, Any]]:
    """Symbols of the graph's shape environment: what each stood for, and the range it was known to lie in."""
    for node in module.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        environment = getattr(mode, "shape_env", None)
        if environment is None:
            continue
        # The older name still exists where the newer does, and warns when it is touched.
        newer = hasattr(environment, "backed_var_to_val")
        known = environment.backed_var_to_val if newer else environment.var_to_val
        found = {}
        for symbol, hint in known.items():
            bounds = environment.var_to_range.get(symbol)
            value = _number(hint)  # the size of a jagged dimension stands for itself, not for a number
            if value is not None:
                low, high = _number(getattr(bounds, "lower", None)), _number(getattr(bounds, "upper", None))
                found[str(symbol)] = {"value": value, "low": low, "high": high}
        return found
    return {}


def _number(expression: Any) -> int | None:
    try:
        return int(expression)
    except (AttributeError, TypeError, OverflowError, ValueError):  # the first is how sympy refuses infinity
        return None
