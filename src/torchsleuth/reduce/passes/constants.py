"""Numbers in the calls become 1 or 0: factors and bounds, not the sizes that operators take as lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, leaves, map_args
from torchsleuth.case.model import Case

_TAKE_SIZES = frozenset("view reshape expand repeat unflatten new_zeros new_ones zeros ones randn empty full".split())
_MOST = 24  # numbers to ask about one by one: a table of data in a call is no list of constants


def propose(case: Case) -> Iterator[Case]:
    numbers = [(i, v) for i, n in enumerate(case.graph.nodes) if n.is_call for v in _numbers(n)]
    floats = [v for _, v in numbers if isinstance(v, float)]
    if floats:
        yield _everywhere(case, lambda leaf: 1.0 if isinstance(leaf, float) and _odd(leaf) else leaf)
    asked: set[tuple[int, Arg]] = set()
    for place, number in numbers:
        if (place, number) not in asked and len(asked) < _MOST:
            asked.add((place, number))
            for simple in (1, 0):
                yield _at(case, place, number, type(number)(simple))


def _odd(value: Arg) -> bool:
    return type(value) in (int, float) and value not in (0, 1, -1)


def _numbers(node: Node) -> Iterator[Arg]:
    """Floats wherever they stand; whole numbers that are an argument by themselves."""
    for leaf in leaves((node.args, dict(node.kwargs))):
        if isinstance(leaf, float) and _odd(leaf):
            yield leaf
    if node.target.rpartition(".")[2] not in _TAKE_SIZES:
        yield from (v for v in (*node.args, *node.kwargs.values()) if type(v) is int and _odd(v))


def _everywhere(case: Case, change: Callable[[Arg], Arg]) -> Case:
    nodes = [_changed(n, change) if n.is_call else n for n in case.graph.nodes]
    return replace(case, graph=_graph(case, nodes))


def _at(case: Case, place: int, number: Arg, simple: Arg) -> Case:
    nodes = list(case.graph.nodes)
    nodes[place] = _changed(
        nodes[place], lambda leaf: simple if type(leaf) is type(number) and leaf == number else leaf
    )
    return replace(case, graph=_graph(case, nodes))


def _changed(node: Node, change: Callable[[Arg], Arg]) -> Node:
    kwargs = {k: map_args(v, change) for k, v in node.kwargs.items()}
    return replace(node, args=map_args(node.args, change), kwargs=kwargs)


def _graph(case: Case, nodes: list[Node]) -> Graph:
    return replace(case.graph, nodes=tuple(nodes))
