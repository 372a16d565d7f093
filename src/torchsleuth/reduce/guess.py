"""Guesses that most bugs end with: the operator that the error names, and a census of operator kinds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torchsleuth.case.expressions import show
from torchsleuth.case.ir import Graph, Node, Op, Ref, map_args
from torchsleuth.reduce.facts import Facts

Unit = frozenset[str]


def named(graph: Graph, units: Sequence[Unit], operator: str | None) -> list[Unit]:
    """Units whose operator has the name that the error gives, first and last occurrence."""
    if not operator:
        return []
    wanted = _bare(operator)
    nodes = {n.name: n for n in graph.nodes}
    found = [u for u in units if any(_bare(nodes[name].target) == wanted for name in u)]
    return list(dict.fromkeys([*found[:1], *found[-1:]]))


def _bare(target: str) -> str:
    """ "cummin" for torch.cummin, aten.cummin.default, Tensor.cummin_ and operator.cummin."""
    words = target.replace("::", ".").split(".")
    if "ops" in words or words[0] == "aten":
        start = words.index("ops") + 2 if "ops" in words else 1
        words = words[start : start + 1] or words[-1:]
    return words[-1].strip("_")


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
