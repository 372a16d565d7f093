"""Values that a body no longer makes become operands of the operator that calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, inputs_of, map_args
from torchsleuth.case.model import Case, Storage, Tensor
from torchsleuth.reduce.edit import tidy
from torchsleuth.reduce.facts import concrete, symbol_values

# Where the operands that all bodies take stand among the arguments.
_OPERANDS = {"cond": 3, "while_loop": 3, "scan": 3, "map_impl": 2}
_TRAILING = (  # every argument after the body is one
    "tag_activation_checkpoint",
    "wrap",
    "invoke_subgraph",
)


def as_operands(case: Case, path: str, missing: Sequence[Node]) -> Case | None:
    """`missing` are nodes that the body `path` reads and no longer holds; None where they cannot be handed in."""
    graph = case.graph
    attributes = {n.name: n.target for n in graph.nodes if n.op is Op.GET_ATTR and n.target in graph.bodies}
    callers = [n for n in graph.nodes if any(attributes.get(name) == path for name in inputs_of(n))]
    made = _inputs(case, missing)
    if made is None:
        return None
    names, tensors = made
    calls: dict[str, Node] = {}
    concerned = {path}
    for caller in callers:
        more = _with_more(caller, [Ref(names[n.name]) for n in missing])
        if more is None:
            return None
        calls[caller.name] = more
        concerned |= {attributes[name] for name in inputs_of(caller) if name in attributes}
    bodies = {p: _taking(b, missing, names) if p in concerned else b for p, b in graph.bodies.items()}
    added = [replace(n, name=names[n.name], op=Op.PLACEHOLDER, target=names[n.name], args=(), kwargs={}, tags={})
             for n in missing]  # fmt: skip
    rest = [calls.get(n.name, n) for n in graph.nodes if n.op is not Op.PLACEHOLDER]
    whole = replace(graph, nodes=(*graph.placeholders, *added, *rest), bodies=bodies)
    storages = (*case.storages, *(Storage(0) for _ in tensors))
    return tidy(replace(case, graph=whole, inputs=(*case.inputs, *tensors), storages=storages))


def _inputs(case: Case, missing: Sequence[Node]) -> tuple[Mapping[str, str], list[Tensor]] | None:
    used = {n.name for g in case.graph.all_graphs() for n in g.nodes}
    symbols = symbol_values(case)
    names: dict[str, str] = {}
    tensors: list[Tensor] = []
    for node in missing:
        tensor = concrete(node.value, symbols) if node.value is not None else None
        if tensor is None:
            return None
        number = 1
        while f"{node.name}_{number}" in used:
            number += 1
        names[node.name] = f"{node.name}_{number}"
        used.add(names[node.name])
        tensors.append(replace(tensor, storage=len(case.storages) + len(tensors)))
    return names, tensors


def _with_more(caller: Node, operands: Sequence[Ref]) -> Node | None:
    word = caller.target.rpartition(".")[2]
    if word in _TRAILING:
        return replace(caller, args=(*caller.args, *operands))
    place = _OPERANDS.get(word)
    if place is None or len(caller.args) != place + 1 or not isinstance(caller.args[place], (list, tuple)):
        return None
    given = caller.args[place]
    more = [*given, *operands] if isinstance(given, list) else (*given, *operands)
    return replace(caller, args=(*caller.args[:place], more))


def _taking(body: Graph, missing: Sequence[Node], names: Mapping[str, str]) -> Graph:
    """The body with more inputs, under the names that nothing else has; those that lost the nodes read them there."""
    own = {n.name for n in body.nodes}
    renamed = {n.name: names[n.name] for n in missing if n.name not in own}

    def put(leaf: Arg) -> Arg:
        return Ref(renamed[leaf.name]) if isinstance(leaf, Ref) and leaf.name in renamed else leaf

    added = [Node(names[n.name], Op.PLACEHOLDER, names[n.name], value=n.value) for n in missing]
    rest = [
        replace(n, args=map_args(n.args, put), kwargs={k: map_args(v, put) for k, v in n.kwargs.items()})
        for n in body.nodes
        if n.op is not Op.PLACEHOLDER
    ]
    return replace(body, nodes=(*body.placeholders, *added, *rest))
