"""Operands of higher-order operators that no body reads any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, inputs_of
from torchsleuth.case.model import Case
from torchsleuth.reduce.edit import tidy

# Where the operands stand among the arguments, and which earlier arguments the bodies take first.
_LISTS = {"cond": (3, ()), "while_loop": (3, (2,)), "scan": (3, (1, 2)), "map_impl": (2, (1,))}
_FROM = {"tag_activation_checkpoint": 1, "wrap": 1, "invoke_subgraph": 2}


@dataclass(frozen=True)
class _Call:
    node: Node
    bodies: tuple[str, ...]
    place: int
    listed: bool  # the operands are one argument, a list; else all arguments from `place` on
    before: int  # inputs of the bodies that come first

    @property
    def operands(self) -> tuple[Arg, ...]:
        return tuple(self.node.args[self.place]) if self.listed else self.node.args[self.place :]


def propose(case: Case) -> Iterator[Case]:
    for call in _calls(case.graph):
        unread = [
            i
            for i in range(len(call.operands))
            if not any(_reads(case.graph.bodies[path], call.before + i) for path in call.bodies)
        ]
        if unread:
            yield _without(case, call, unread)


def _calls(graph: Graph) -> Iterator[_Call]:
    attributes = {n.name: n.target for n in graph.nodes if n.op is Op.GET_ATTR and n.target in graph.bodies}
    named = [attributes[name] for n in graph.nodes for name in inputs_of(n) if name in attributes]
    for node in graph.nodes:
        bodies = tuple(dict.fromkeys(attributes[name] for name in inputs_of(node) if name in attributes))
        word = node.target.rpartition(".")[2]
        if not bodies or any(named.count(path) > 1 for path in bodies):
            continue
        if word in _FROM:
            call = _Call(node, bodies, _FROM[word], False, 0)
        elif word in _LISTS and len(node.args) > _LISTS[word][0]:
            place, first = _LISTS[word]
            call = _Call(node, bodies, place, True, sum(len(node.args[i]) for i in first))
        else:
            continue
        if all(len(graph.bodies[p].placeholders) == call.before + len(call.operands) for p in bodies):
            yield call


def _reads(body: Graph, number: int) -> bool:
    name = body.placeholders[number].name
    return any(name in inputs_of(node) for node in body.nodes)


def _without(case: Case, call: _Call, unread: Collection[int]) -> Case:
    graph = case.graph
    left = [operand for i, operand in enumerate(call.operands) if i not in unread]
    if call.listed:
        given = type(call.node.args[call.place])(left)
        args = (*call.node.args[: call.place], given, *call.node.args[call.place + 1 :])
    else:
        args = (*call.node.args[: call.place], *left)
    bodies = dict(graph.bodies)
    for path in call.bodies:
        gone = {bodies[path].placeholders[call.before + i].name for i in unread}
        bodies[path] = replace(bodies[path], nodes=tuple(n for n in bodies[path].nodes if n.name not in gone))
    nodes = tuple(replace(n, args=args) if n.name == call.node.name else n for n in graph.nodes)
    return tidy(replace(case, graph=replace(graph, nodes=nodes, bodies=bodies)))
