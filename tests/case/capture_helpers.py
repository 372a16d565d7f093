"""Graphs of real programs, taken where Dynamo and AOTAutograd hand them on, and the proof that a round trip keeps them.

Graphs are looked at inside the backend, before anything else changes them: AOTAutograd works on what Dynamo made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from case_helpers import exactly, through_text
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from torchsleuth import torch_api
from torchsleuth.case import from_torch, to_torch
from torchsleuth.case.graph_text import UNKNOWN_FUNCTION
from torchsleuth.case.ir import Graph, Unknown, leaves
from torchsleuth.case.model import Level

GraphModule = torch.fx.GraphModule


@dataclass
class Taken:
    """What one program compiled to; each graph was taken through text and back when it was seen."""

    graphs: list[tuple[Level, Graph]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)
    runs: list[tuple[Any, Any]] = field(default_factory=list)  # outputs of the original and the rebuilt graph

    def level(self, level: Level) -> list[Graph]:
        return [g for at, g in self.graphs if at is level]

    def targets(self) -> set[str]:
        return {n.target for _, graph in self.graphs for g in graph.all_graphs() for n in g.nodes}


def take(
    function: Callable[..., Any],
    *args: Any,
    dynamic: bool | None = None,
    aot: bool = True,
    execute: bool = True,
    compare: bool = False,
) -> Taken:
    """Compile `function`, run it, and its backward where its outputs ask for one.

    `aot`: go on to AOTAutograd's graphs.  `compare`: run each of those beside what was rebuilt of it.
    """
    taken = Taken()

    def look(module: GraphModule, level: Level) -> GraphModule | None:
        try:
            return _round_trip(module, level, taken)
        except BaseException as error:  # the compiler may swallow it
            taken.errors.append(error)
            return None

    def aten(module: GraphModule, inputs: Sequence[Any]) -> Any:
        rebuilt = look(module, Level.ATEN)

        def call(*values: Any) -> Any:
            if not execute:
                raise NotRun
            out = module(*_copies(values)) if compare and rebuilt else None
            if out is not None and rebuilt is not None:
                with torch.random.fork_rng():
                    taken.runs.append((out, rebuilt(*_copies(values))))
            return module(*values)

        return make_boxed_func(call)

    def backend(module: GraphModule, inputs: Sequence[Any]) -> Any:
        look(module, Level.DYNAMO)
        return aot_autograd(fw_compiler=aten, bw_compiler=aten)(module, inputs) if aot else module.forward

    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        out = torch.compile(function, backend=backend, dynamic=dynamic)(*args)
        leaves = [v for v in torch.utils._pytree.tree_leaves(out) if isinstance(v, torch.Tensor) and v.requires_grad]
        if aot and leaves:
            torch.autograd.backward(leaves, [torch.ones_like(t) for t in leaves])
    except NotRun:
        pass
    except Exception:
        if not taken.errors:
            raise
    finally:
        torch._dynamo.reset()
    if taken.errors:
        raise taken.errors[0]
    assert taken.graphs, "nothing was compiled"
    return taken


class NotRun(Exception):
    """A graph that was to be compiled only."""


def round_trip(module: GraphModule, level: Level = Level.DYNAMO) -> Taken:
    """One graph, taken through text and back."""
    taken = Taken()
    _round_trip(module, level, taken)
    return taken


def _round_trip(module: GraphModule, level: Level, taken: Taken) -> GraphModule | None:
    tensors = from_torch.Tensors()
    graph = from_torch.graph_of(module, tensors)
    back = through_text(graph)
    assert exactly(back) == exactly(graph)
    unknown = unknown_in(graph)
    taken.graphs.append((level, graph))
    taken.unknown |= unknown
    if unknown:
        return None
    rebuilt = to_torch.graph_module(back, tensors.kept)
    assert_same(module, rebuilt)
    return rebuilt


def _name(target: Any) -> str | None:
    """A function that Dynamo defines anew for each graph is the same where it has the same name."""
    return target if isinstance(target, str) else torch_api.qualified_name(target)


def _copies(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def unknown_in(graph: Graph) -> set[str]:
    """Everything that the graph names as not kept."""
    found: set[str] = set()
    for part in graph.all_graphs():
        found |= {f"{path}: {what}" for path, what in part.unknown.items()}
        for node in part.nodes:
            found |= {node.target} if node.target.startswith(UNKNOWN_FUNCTION) else set()
            values = (node.args, dict(node.kwargs), dict(node.tags))
            found |= {leaf.what for leaf in leaves(values) if isinstance(leaf, Unknown)}
    return found


def assert_same(original: GraphModule, rebuilt: GraphModule) -> None:
    """Node for node: op, name, the very target, arguments; bodies likewise; attributes by identity."""
    before, after = list(original.graph.nodes), list(rebuilt.graph.nodes)
    assert [n.name for n in before] == [n.name for n in after]
    for a, b in zip(before, after, strict=True):
        assert a.op == b.op
        assert a.target is b.target or _name(a.target) == _name(b.target) is not None, (a.target, b.target)
        assert frozen(a.args) == frozen(b.args), (a.format_node(), b.format_node())
        assert frozen(a.kwargs) == frozen(b.kwargs)
        for tag in ("recompute", "ac_graph_id", "partitioner_tag", "custom"):
            assert frozen(a.meta.get(tag)) == frozen(b.meta.get(tag))
        if a.op in ("get_attr", "call_module"):
            ours, theirs = attribute(original, a.target), attribute(rebuilt, b.target)
            if isinstance(ours, GraphModule):
                assert_same(ours, theirs)
            elif isinstance(ours, torch.Tensor):
                assert ours is theirs
            else:
                assert repr(ours) == repr(theirs)


def attribute(module: torch.nn.Module, path: Any) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def frozen(value: Any) -> Any:
    """Arguments of FX nodes, comparable: nodes by name, objects by identity, nan equal to nan."""
    if isinstance(value, torch.fx.Node):
        return ("node", value.name)
    if isinstance(value, torch.Size):
        return ("size", *value)
    if isinstance(value, (list, tuple)):
        return ("list" if isinstance(value, list) else "tuple", *map(frozen, value))
    if isinstance(value, dict):
        return ("dict", *((frozen(k), frozen(v)) for k, v in value.items()))
    if isinstance(value, slice):
        return ("slice", frozen(value.start), frozen(value.stop), frozen(value.step))
    if value is None or isinstance(value, (bool, int, float, complex, str, torch.device, range)):
        return type(value).__name__, repr(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return ("torch", str(value))
    return type(value).__qualname__, repr(value) if hasattr(type(value), "__members__") else id(value)
