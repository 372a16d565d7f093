"""Graphs of functions, as Dynamo hands them to its backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


def graph_of(function: Function, *inputs: torch.Tensor) -> Function:
    """Its graph, as Dynamo hands it on."""
    found: list[Function] = []

    def backend(module: torch.fx.GraphModule, _: Sequence[Any]) -> Function:
        found.append(module.forward)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*inputs)
    return found[0]
