"""Fewer operators inside the bodies of higher-order operators.

What a dropped operator gave is an input of its own that looks the same, else an input of the body that does, else one
more operand of the higher-order operator, where that has a place for more; otherwise the operator stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, inputs_of, map_args, picks
from torchsleuth.case.model import Case
from torchsleuth.reduce import lift
from torchsleuth.reduce.edit import tidy
from torchsleuth.reduce.inline import inlined
from torchsleuth.reduce.units import Unit, units

__all__ = ["Path", "inlined", "keep_inside", "paths", "units_in"]

Path = tuple[str, ...]


def paths(graph: Graph) -> Iterator[Path]:
    """Every body, those within bodies after the one that holds them."""
    for name, body in graph.bodies.items():
        yield (name,)
        for inner in paths(body):
            yield (name, *inner)


def units_in(graph: Graph, path: Path) -> list[Unit]:
    body = _at(graph, path)
    return [] if body is None else units(body)


def keep_inside(case: Case, path: Path, keep: Collection[str]) -> Case | None:
    """The Case with only the operators `keep` in one body; None where something that is kept needs another."""
    body = _at(case.graph, path)
    if body is None:
        return None
    smaller, missing = _kept(body, keep)
    if missing and len(path) > 1:
        return None
    graph = _with(case.graph, path, smaller)
    if not missing:
        return tidy(replace(case, graph=graph))
    return lift.as_operands(replace(case, graph=graph), path[0], missing)


def _at(graph: Graph, path: Path) -> Graph | None:
    for name in path:
        if name not in graph.bodies:
            return None
        graph = graph.bodies[name]
    return graph


def _with(graph: Graph, path: Path, body: Graph) -> Graph:
    if not path:
        return body
    inner = _with(graph.bodies[path[0]], path[1:], body)
    return replace(graph, bodies={**graph.bodies, path[0]: inner})


def _kept(body: Graph, keep: Collection[str]) -> tuple[Graph, list[Node]]:
    """The smaller body, and the dropped nodes whose values it still reads."""
    nodes = {n.name: n for n in body.nodes}
    free = picks(body)
    gone: set[str] = set()
    instead: dict[str, str] = {}
    left: list[Node] = []
    for node in body.nodes:
        whole_gone = node.name in free and node.args[0].name in gone
        if node.is_call and (whole_gone or (node.name not in keep and node.name not in free)):
            gone.add(node.name)
            other = _stand_in(node, nodes, body)
            if other is not None:
                instead[node.name] = instead.get(other, other)
        else:
            left.append(_renamed(node, instead))
    read = {name for node in left for name in inputs_of(node)}
    named = {n.target for n in left if n.op is Op.GET_ATTR and n.name in read}
    left = [n for n in left if n.op is not Op.GET_ATTR or n.name in read]
    smaller = replace(body, nodes=tuple(left), bodies={k: v for k, v in body.bodies.items() if k in named})
    # In the order of the body: that of a set differs from run to run.
    return smaller, [n for n in body.nodes if n.name in gone and n.name in read]


def _stand_in(node: Node, nodes: dict[str, Node], body: Graph) -> str | None:
    """A value that looks like what `node` gave: an input of its own first, then an input of the body."""
    for name in (*inputs_of(node), *(p.name for p in body.placeholders)):
        if _alike(nodes[name], node):
            return name
    return None


def _alike(a: Node, b: Node) -> bool:
    if a.value is None or b.value is None:
        return False
    return (a.value.dtype, a.value.shape, a.value.device) == (b.value.dtype, b.value.shape, b.value.device)


def _renamed(node: Node, instead: dict[str, str]) -> Node:
    def put(leaf: Arg) -> Arg:
        return Ref(instead[leaf.name]) if isinstance(leaf, Ref) and leaf.name in instead else leaf

    return replace(node, args=map_args(node.args, put), kwargs={k: map_args(v, put) for k, v in node.kwargs.items()})
