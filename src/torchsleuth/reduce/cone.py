"""The operators that a wrong result can depend on: what it is made of, and what writes to memory that is read there.

A write that comes later counts too.  In eager it cannot change a value that was read before; a compiler that reorders
the two is the bug one looks for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from torchsleuth.case import effects
from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, inputs_of
from torchsleuth.operators.properties import may_share_memory
from torchsleuth.reduce.units import Unit


def units_of(graph: Graph, units: Sequence[Unit], results: Collection[str]) -> list[Unit]:
    """Units in the cone of the results (nodes); all of them where no result is known."""
    if not results:
        return list(units)
    nodes = {n.name: n for n in graph.nodes}
    memory = memories(graph.nodes)
    writers = [n for n in graph.nodes if n.op is not Op.OUTPUT and effects.writes(n)]
    reached: set[str] = set()
    edge = set(results)
    while edge:
        reached |= edge
        found = {name for one in edge for name in inputs_of(nodes[one])}
        touched = {memory[name] for name in reached | found}
        found |= {n.name for n in writers if any(memory[name] in touched for name in inputs_of(n))}
        edge = found - reached
    return [unit for unit in units if not unit.isdisjoint(reached)]


def memories(nodes: Sequence[Node]) -> dict[str, str]:
    """For each value the one whose memory it may share; writers share that of all they may write."""
    memory: dict[str, str] = {}
    for node in nodes:
        given = [name for name in inputs_of(node) if name in memory]
        shares = given and (effects.writes(node) or may_share_memory(node.target))
        memory[node.name] = memory[given[0]] if shares else node.name
    return memory


def nodes_at(graph: Graph, paths: Collection[str]) -> tuple[str, ...]:
    """Nodes that stand at these places among what a caller sees; nothing where one of them is not known.

    `out[1][0]` is a result.  Everything else is an input that the graph writes to, by a name of the script's: all that
    are written to stand for it.
    """
    found: list[str] = []
    for path in paths:
        at = re.fullmatch(r"out((?:\[\d+\])*)", path)
        if at is None:
            found += written_inputs(graph)
            continue
        name = _name_at(graph.output.args, [int(i) for i in re.findall(r"\d+", at.group(1))])
        if name is None:
            return ()
        found.append(name)
    return tuple(dict.fromkeys(found))


def written_inputs(graph: Graph) -> list[str]:
    """Placeholders to whose memory the graph itself may write."""
    memory = memories(graph.nodes)
    written = {memory[name] for n in graph.nodes if effects.writes(n) for name in effects.written(n)}
    return [n.name for n in graph.placeholders if n.name in written]


def _name_at(args: Arg, places: Sequence[int]) -> str | None:
    value: Arg = args[0] if isinstance(args, tuple) and len(args) == 1 else args
    for place in places:
        if not isinstance(value, (tuple, list)) or place >= len(value):
            return None
        value = value[place]
    if isinstance(value, (tuple, list)) and len(value) == 1 and not places:
        value = value[0]
    return value.name if isinstance(value, Ref) else None
