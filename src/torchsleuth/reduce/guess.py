"""Guesses that most bugs end with: what the error or the failing kernel names, and a census of operator kinds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from torchsleuth.case.expressions import show
from torchsleuth.case.ir import Graph, Node, Op, Ref, inputs_of, map_args
from torchsleuth.judge.generated import Noted
from torchsleuth.operators.names import base_name
from torchsleuth.operators.properties import has_no_kernel
from torchsleuth.reduce.aliases import aten_names
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.units import Unit

_SELDOM = 0.1  # how often an operator without a kernel is guilty


def named(graph: Graph, units: Sequence[Unit], operator: str | None) -> list[Unit]:
    """Units whose operator has the name that the error gives, first and last occurrence."""
    if not operator:
        return []
    wanted = base_name(operator)
    nodes = {n.name: n for n in graph.nodes}
    found = [u for u in units if any(base_name(nodes[name].target) == wanted for name in u)]
    found = found or [u for u in units if any(wanted in aten_names(base_name(nodes[name].target)) for name in u)]
    return list(dict.fromkeys([*found[:1], *found[-1:]]))


def noted(graph: Graph, units: Sequence[Unit], names: Noted) -> list[Unit]:
    """Units that the generated code of the failing kernel speaks of: by node where it does, else by operator."""
    nodes = {n.name: n for n in graph.nodes}
    exact = [u for u in units if not u.isdisjoint(names.nodes)]
    if exact and len(exact) < len(units):
        return exact
    called = {u: [base_name(nodes[name].target) for name in u] for u in units}
    found = [u for u in units if any(map(names.names, called[u]))]
    return found or [u for u in units if any(names.names(n) for word in called[u] for n in aten_names(word))]


def before(graph: Graph, units: Sequence[Unit], suspect: str, levels: int) -> list[Unit]:
    """The suspect's unit with those that its inputs come from, so many levels back."""
    nodes = {n.name: n for n in graph.nodes}
    reached, edge = {suspect}, {suspect}
    for _ in range(levels):
        edge = {name for one in edge for name in inputs_of(nodes[one])} - reached
        # A tuple's element is no level of its own.
        edge |= {
            name for one in edge if nodes[one].target.endswith("operator.getitem") for name in inputs_of(nodes[one])
        }
        reached |= edge
    return [unit for unit in units if not unit.isdisjoint(reached)]


def kinds(graph: Graph, units: Sequence[Unit], facts: Facts) -> list[Unit]:
    """One unit of each distinct kind: target, what its inputs look like but for sizes, constants."""
    nodes = {n.name: n for n in graph.nodes}
    seen: dict[Hashable, Unit] = {}
    for unit in units:
        key = tuple(sorted(_kind(nodes[name], facts) for name in unit))
        seen.setdefault(key, unit)
    return list(seen.values())


def _kind(node: Node, facts: Facts) -> str:
    def look(leaf: object) -> object:
        if not isinstance(leaf, Ref):
            return leaf
        tensor = facts.tensors.get(leaf.name)
        return f"{tensor.dtype}/{len(tensor.shape)}" if tensor else "?"

    target = node.name if node.op is Op.CALL_MODULE else node.target
    return f"{target} {show(map_args((node.args, dict(node.kwargs)), look))}"


def suspicion(graph: Graph, unit: Unit) -> float:
    nodes = {n.name: n for n in graph.nodes if n.name in unit}
    return _SELDOM if all(has_no_kernel(n.target) for n in nodes.values()) else 1.0


def halved(items: Sequence[Unit], weights: Sequence[float], fails: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """The one guilty item of a failing whole, if there is one: half of the suspicion is asked for each time.

    Where a half passes, the other is believed guilty without asking; the end is asked for, and where it passes too
    (two items are needed), the smallest set that was seen to fail is handed back.
    """
    order = sorted(range(len(items)), key=lambda i: -weights[i])
    failing, believed = list(order), list(order)
    while len(believed) > 1:
        half = _heavier(believed, weights)
        if fails([items[i] for i in sorted(half)]):
            failing = believed = half
        else:
            believed = [i for i in believed if i not in half]
    if believed != failing and fails([items[i] for i in believed]):
        failing = believed
    return [items[i] for i in sorted(failing)]


def _heavier(order: Sequence[int], weights: Sequence[float]) -> list[int]:
    """The front of `order` that holds about half of the weight; never all of it."""
    total, sofar = sum(weights[i] for i in order), 0.0
    for count, i in enumerate(order, start=1):
        sofar += weights[i]
        if sofar * 2 >= total:
            return list(order[: min(count, len(order) - 1)])
    return list(order[:-1])
