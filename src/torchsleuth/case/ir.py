"""A graph as plain data: what FX holds, without torch.

A Case is read, edited and printed in this form, so opening one imports and runs nothing.  Values in arguments are
ordinary Python constants and containers, plus the few classes here.  `Graph.bodies` are the subgraphs of higher-order
operators, by the attribute path that names them in FX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Arg = Any  # None, bool, int, float, complex, str, Ellipsis, slice, list, tuple, dict, or one of the classes below


@dataclass(frozen=True)
class Ref:
    """The value of another node of the same graph."""

    name: str


@dataclass(frozen=True)
class Name:
    """A dotted name: a dtype, a layout, an operator passed as a value."""

    dotted: str


@dataclass(frozen=True)
class Made:
    """A value made by a call of constants: torch.device('cuda', 0), torch.Size([2]), range(3)."""

    maker: str
    args: tuple[Arg, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """Something that cannot be kept; named so that nobody believes it was."""

    what: str


class Op(str, Enum):
    PLACEHOLDER = "placeholder"
    GET_ATTR = "get_attr"
    CALL_FUNCTION = "call_function"
    CALL_METHOD = "call_method"
    CALL_MODULE = "call_module"
    OUTPUT = "output"


@dataclass(frozen=True)
class Source:
    """The line of the user's that made a node, and the module it ran in."""

    file: str
    line: int
    function: str = ""
    code: str = ""
    module: str = ""


@dataclass(frozen=True)
class Value:
    """What is known of a node's value: symbolic sizes are written as expressions ("s77", "2*s77 + 1")."""

    dtype: str
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...] | None = None
    device: str = "cpu"

    @property
    def elements(self) -> int | None:
        """None where sizes are symbols."""
        known = [size for size in self.shape if isinstance(size, int)]
        return math.prod(known) if len(known) == len(self.shape) else None


@dataclass(frozen=True)
class Node:
    name: str
    op: Op
    target: str  # a dotted name, a method, an attribute path, or the parameter's name
    args: tuple[Arg, ...] = ()
    kwargs: Mapping[str, Arg] = field(default_factory=dict)
    value: Value | None = None
    source: Source | None = None
    tags: Mapping[str, Arg] = field(default_factory=dict)  # meta that changes how the node compiles

    @property
    def is_call(self) -> bool:
        return self.op in (Op.CALL_FUNCTION, Op.CALL_METHOD, Op.CALL_MODULE)


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    bodies: Mapping[str, Graph] = field(default_factory=dict)
    tensors: Mapping[str, int] = field(default_factory=dict)  # attribute path -> index into the Case's tensors
    modules: Mapping[str, str] = field(default_factory=dict)  # attribute path -> constructor of an nn.Module
    unknown: Mapping[str, str] = field(default_factory=dict)  # attribute path -> what it was

    @property
    def placeholders(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.op is Op.PLACEHOLDER)

    @property
    def output(self) -> Node:
        return self.nodes[-1]

    def all_graphs(self) -> Iterator[Graph]:
        yield self
        for body in self.bodies.values():
            yield from body.all_graphs()


def operators(graph: Graph) -> int:
    """Operator calls, bodies included; taking an element of a tuple is not one."""
    return sum(len([n for n in g.nodes if n.is_call]) - len(picks(g)) for g in graph.all_graphs())


def picks(graph: Graph) -> frozenset[str]:
    """Nodes that take an element of a tuple: free, and kept or dropped with the tuple."""
    nodes = {n.name: n for n in graph.nodes}
    return frozenset(n.name for n in graph.nodes if _picked_from(n, nodes) is not None)


def picked_from(graph: Graph, node: Node) -> Node | None:
    """The operator whose results `node` only takes an element of; None where it is an operator itself."""
    return _picked_from(node, {n.name: n for n in graph.nodes})


def _picked_from(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    taken = node.args[0] if node.target in ("operator.getitem", "_operator.getitem") and node.args else None
    whole = nodes.get(taken.name) if isinstance(taken, Ref) else None
    # A tensor's look is known, and a graph is given no tuples.
    return whole if whole is not None and whole.value is None and whole.op is not Op.PLACEHOLDER else None


def map_args(value: Arg, change: Callable[[Arg], Arg]) -> Arg:
    """`value` with `change` applied to every leaf, containers rebuilt."""
    if isinstance(value, list):
        return [map_args(v, change) for v in value]
    if isinstance(value, tuple):
        return tuple(map_args(v, change) for v in value)
    if isinstance(value, dict):
        return {k: map_args(v, change) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(map_args(value.start, change), map_args(value.stop, change), map_args(value.step, change))
    if isinstance(value, Made):
        return Made(value.maker, tuple(map_args(v, change) for v in value.args))
    return change(value)


def leaves(value: Arg) -> Iterator[Arg]:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from leaves(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from leaves(v)
    elif isinstance(value, slice):
        for v in (value.start, value.stop, value.step):
            yield from leaves(v)
    elif isinstance(value, Made):
        yield from leaves(value.args)
    else:
        yield value


def inputs_of(node: Node) -> Iterator[str]:
    for leaf in leaves((node.args, dict(node.kwargs))):
        if isinstance(leaf, Ref):
            yield leaf.name
