"""The debugging backends as functions that `torch.compile` finds by their names.

The entry point group `torch_dynamo_backends` makes them known wherever torchsleuth is installed; `register` does it by
hand.  Options are those of `compose.with_options`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.compose import with_options
from torchsleuth.backends.recipes import RECIPES


def _backend(name: str) -> Callable[..., Any]:
    def backend(
        gm: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
    ) -> Callable[..., Any]:
        return with_options(RECIPES[name], options or {})(gm, inputs)

    backend.__name__ = backend.__qualname__ = name  # by which Dynamo names it in errors
    return backend


sleuth_eager = _backend("sleuth_eager")
sleuth_eager_marked = _backend("sleuth_eager_marked")
sleuth_schema = _backend("sleuth_schema")
sleuth_function_modes = _backend("sleuth_function_modes")
sleuth_pre_dispatch = _backend("sleuth_pre_dispatch")
sleuth_torchscript = _backend("sleuth_torchscript")
sleuth_aot = _backend("sleuth_aot")
sleuth_aot_min_cut = _backend("sleuth_aot_min_cut")
sleuth_aot_decomp = _backend("sleuth_aot_decomp")
sleuth_aot_dispatch_modes = _backend("sleuth_aot_dispatch_modes")
sleuth_fake = _backend("sleuth_fake")
sleuth_nudged = _backend("sleuth_nudged")
sleuth_aot_torchscript = _backend("sleuth_aot_torchscript")
sleuth_invoke_subgraph = _backend("sleuth_invoke_subgraph")


def register() -> None:
    """Make every name known to `torch.compile`; names that are taken stay as they are."""
    for name in RECIPES:
        torch_api.register_backend(name, globals()[name])
