"""Compilers with something changed on the way, and what a Case must carry for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch

Compiler = Callable[..., Any]


def custom_op_functions(qualified: str) -> tuple[FunctionType, ...]:
    """The Python functions registered for `ns::name` by `torch.library.custom_op` or `triton_op`, the kernel first."""
    definitions = importlib.import_module("torch._library.custom_ops").OPDEFS
    found = definitions.get(qualified)
    if found is None:
        return ()
    parts = [found._init_fn, *found._backend_fns.values(), found._abstract_fn, found._backward_fn]
    parts += [found._setup_context_fn, found._vmap_fn]
    return tuple(part for part in parts if isinstance(part, FunctionType))


def aot_eager_with(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], forward: Compiler, backward: Compiler
) -> Callable[..., Any]:
    """What the backend `aot_eager` does, with `forward` and `backward` called on its two graphs first."""
    debugging = importlib.import_module("torch._dynamo.backends.debugging")

    def then_run(change: Compiler) -> Compiler:
        return lambda graph, example: debugging.boxed_nop(change(graph), example)

    compiled: Callable[..., Any] = debugging.aot_eager(
        gm, inputs, fw_compiler=then_run(forward), bw_compiler=then_run(backward)
    )
    return compiled


def ends_in_break(gm: torch.fx.GraphModule) -> bool:
    """Whether Dynamo's graph stops at a graph break: another graph may follow it."""
    return bool(getattr(getattr(gm, "compile_subgraph_reason", None), "graph_break", False))


def copy_of_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph as it is now, to run in eager later: backends change the one they are given."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def compile_with_inductor(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], options: dict[str, Any]
) -> Callable[..., Any]:
    compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
    compiled: Callable[..., Any] = compile_fx(gm, inputs, config_patches=options or None)
    return compiled


def inductor_with(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], forward: Compiler, backward: Compiler
) -> Callable[..., Any]:
    """Inductor, with `forward` and `backward` called on the ATen graphs that reach its inner entry."""
    compile_fx = importlib.import_module("torch._inductor.compile_fx")

    def inner(graph: torch.fx.GraphModule, example: Sequence[Any], **kwargs: Any) -> Any:
        change = backward if kwargs.get("is_backward") else forward
        return compile_fx.compile_fx_inner(change(graph), example, **kwargs)

    # The cache of whole AOT results is keyed by the graph before `inner` sees it: a hit would skip the change.
    compiled: Callable[..., Any] = compile_fx.compile_fx(
        gm, inputs, inner_compile=inner, config_patches={"force_disable_caches": True}
    )
    return compiled
