"""The way back: plain data into the FX graph that it was, node for node.

Every name is held against the allow-list before it is looked up, here too: a graph may have been edited since it was
read.  What was not kept (`Unknown`, `Graph.unknown`) cannot be built, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

from torchsleuth import torch_api
from torchsleuth.case import allowed, checks, constructors, user_kernels
from torchsleuth.case.graph_text import UNKNOWN_FUNCTION
from torchsleuth.case.ir import Arg, Graph, Made, Name, Node, Op, Ref, Unknown
from torchsleuth.errors import DamagedCase, UnsafeGraph


def graph_module(
    graph: Graph, constants: Sequence[torch.Tensor], *, modules: frozenset[str] = frozenset()
) -> torch.fx.GraphModule:
    """`graph` as FX holds it; `constants` are the Case's, `modules` the user's modules whose functions it may call."""
    checks.check_graph(graph)
    return _build(graph, constants, modules)


def _build(graph: Graph, constants: Sequence[torch.Tensor], modules: frozenset[str]) -> torch.fx.GraphModule:
    for path, what in graph.unknown.items():
        raise DamagedCase(f"The graph holds {path}, a {what}, which was not kept. It cannot be built.")
    root = torch.nn.Module()
    for path, text in graph.modules.items():
        _place(root, path, _made_module(text))
    for path, index in graph.tensors.items():
        _place(root, path, constants[index])
    for path, body in graph.bodies.items():
        _place(root, path, _build(body, constants, modules))
    made = torch.fx.Graph()
    known: dict[str, torch.fx.Node] = {}
    for node in graph.nodes:
        known[node.name] = _add(made, node, known, modules)
    return torch_api.make_graph_module(root, made)


def _made_module(text: str) -> torch.nn.Module:
    constructor = constructors.read(text)
    module: torch.nn.Module = getattr(torch.nn, constructor.name)(*constructor.args, **constructor.kwargs)
    return module.train(constructor.training)


def _place(root: torch.nn.Module, path: str, value: torch.nn.Module | torch.Tensor) -> None:
    *folders, last = path.split(".")
    holder = root
    for name in folders:
        if not hasattr(holder, name):
            setattr(holder, name, torch.nn.Module())
        holder = getattr(holder, name)
    is_parameter = last in dict(holder.named_parameters(recurse=False))
    if is_parameter and isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        value = torch.nn.Parameter(value.detach(), requires_grad=value.requires_grad)
    setattr(holder, last, value)


def _add(
    graph: torch.fx.Graph, node: Node, known: Mapping[str, torch.fx.Node], modules: frozenset[str]
) -> torch.fx.Node:
    target: Any = node.target
    if node.op is Op.CALL_FUNCTION:
        if node.target.startswith(UNKNOWN_FUNCTION):
            raise DamagedCase(f"{node.name} calls {node.target}, which was not kept. It cannot be built.")
        target = _resolved(allowed.check_function(node.target, modules))
    elif node.op is Op.CALL_METHOD:
        allowed.check_method(node.target)
    checks.check_call(node)
    if user_kernels.number_of(node) is not None:
        raise DamagedCase(f"{node.name} calls a Triton kernel of the program's, which a graph alone does not hold.")
    args = tuple(_value(a, known, node) for a in node.args)
    kwargs = {k: _value(v, known, node) for k, v in node.kwargs.items()}
    made = graph.create_node(node.op.value, target, args, kwargs, name=node.name)
    if made.name != node.name:
        raise DamagedCase(f"FX will not have a node named {node.name!r}. Take a fresh capture.")
    made.meta.update({k: _tag(k, _value(v, known, node)) for k, v in node.tags.items()})
    return made


def _tag(name: str, value: Any) -> Any:
    return CheckpointPolicy(value) if name == "recompute" and type(value) is int else value


def _resolved(dotted: str) -> Any:
    try:
        found = torch_api.resolve(dotted)
        if isinstance(found, ModuleType):
            raise UnsafeGraph(f"{dotted} is a module, which is no value of a graph. Nothing was run.")
        return found
    except (AttributeError, ImportError) as error:
        raise DamagedCase(
            f"This torch ({torch.__version__}) has no {dotted}: {error}. Use the torch that the Case was taken with, "
            "and import what registers its operators."
        ) from None


def _value(value: Arg, known: Mapping[str, torch.fx.Node], node: Node) -> Any:
    def inner(part: Arg) -> Any:
        return _value(part, known, node)

    if isinstance(value, Ref):
        if value.name not in known:
            raise DamagedCase(f"{node.name} reads {value.name}, which comes after it. Take a fresh capture.")
        return known[value.name]
    if isinstance(value, Name):
        return _resolved(allowed.check_value(value.dotted))
    if isinstance(value, Made):
        return _made_value(value.maker, [inner(a) for a in value.args])
    if isinstance(value, Unknown):
        raise DamagedCase(f"{node.name} takes a {value.what}, which was not kept. It cannot be built.")
    if isinstance(value, slice):
        return slice(inner(value.start), inner(value.stop), inner(value.step))
    if isinstance(value, tuple):
        return tuple(map(inner, value))
    if isinstance(value, list):
        return list(map(inner, value))
    if isinstance(value, dict):
        return {inner(k): inner(v) for k, v in value.items()}
    return value


def _made_value(maker: str, args: list[Any]) -> Any:
    if maker not in allowed.MAKERS:
        raise DamagedCase(f"The graph makes a value by {maker!r}, which no graph does. Nothing was run.")
    try:
        return _resolved(maker)(*args)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DamagedCase(f"{maker} does not take what the graph gives it: {error}. Take a fresh capture.") from None
