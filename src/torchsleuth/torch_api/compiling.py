"""Where a graph compiles: by which backend, in which configuration, with what context."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch


def compile_id() -> str:
    from torch._guards import CompileContext

    found = CompileContext.current_compile_id()
    return str(found) if found is not None else ""


def forward_metadata() -> Any:
    """AOTAutograd's analysis of the graph being compiled (which inputs are mutated), or None."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return getattr(context, "fw_metadata", None)


def donated_inputs() -> list[int]:
    """Inputs of the backward being compiled that nobody reads after it: Inductor may write into them."""
    return list(getattr(forward_metadata(), "bw_donated_idxs", None) or ())


def config_modules() -> dict[str, Any]:

    return {
        name: importlib.import_module(name)
        for name in (
            "torch._dynamo.config",
            "torch._inductor.config",
            "torch._functorch.config",
            "torch.fx.experimental._config",
        )
    }


def changed_configs(module: Any) -> Iterator[tuple[str, Any]]:
    """Entries that differ from their default (an entry set through the environment counts as its default)."""
    for name, entry in module._config.items():
        if module._is_default(name) or getattr(entry, "alias", None) is not None:
            continue
        # An entry that was patched and put back is marked as set, to its default.
        value = getattr(module, name)
        if value != entry.default:
            yield name, value


def allowed_to_break(error: BaseException) -> bool:
    """Whether Dynamo may turn this backend exception into a graph break: then it is no failure."""
    from torch._dynamo import output_graph

    kinds = getattr(output_graph, "exceptions_allowed_to_be_fallback", ())
    if isinstance(kinds, type):
        kinds = (kinds,)
    return isinstance(error, tuple(kinds)) or type(error).__name__ in (
        "SkipFrame",
        "TensorifyScalarRestartAnalysis",
        "RestartAnalysis",
    )


def suppresses_errors() -> bool:
    import torch._dynamo.config as config

    return bool(config.suppress_errors)


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(tensor)


def without_lazy_bits(tensor: torch.Tensor) -> torch.Tensor:
    """What its memory holds: a conjugate or negative that is not computed yet is a mark on the tensor."""
    plain = tensor.conj() if tensor.is_conj() else tensor
    return negative_view(plain) if plain.is_neg() else plain


def with_lazy_bits_of(tensor: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """A copy of what the memory of `given` holds, marked as `given` is."""
    marked = tensor.conj() if given.is_conj() else tensor
    return negative_view(marked) if given.is_neg() else marked


def backend_parts(backend: Any) -> tuple[str, Any, dict[str, Any], str | None]:
    """(registered name or "", the function, options, mode) of what Dynamo calls with a graph."""
    from torch._dynamo.backends import registry

    function = backend
    options: dict[str, Any] = {}
    mode: str | None = None
    if isinstance(backend, torch._TorchCompileInductorWrapper):
        return backend.compiler_name, backend, dict(backend.config), None
    if isinstance(backend, torch._TorchCompileWrapper):
        function = backend.compiler_fn
        options = dict(backend.kwargs.get("options") or {})
        mode = backend.kwargs.get("mode")
    for name, known in registry._COMPILER_FNS.items():
        if known is function:
            return name, function, options, mode
    return "", function, options, mode


def is_float_argument(placeholder: torch.fx.Node) -> bool:
    """Whether this 0-d tensor input is a Python float of the user's (Dynamo passes it so under dynamic shapes)."""
    argument = placeholder.meta.get("grapharg")
    return bool(getattr(argument, "pass_arg_as_tensor", False)) and placeholder.meta["example_value"].ndim == 0
