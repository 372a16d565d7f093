"""Higher-order operators replaced by their bodies: what is left is a flat graph that every other edit can work on.

Where an operator calls its body once with its own operands (cond, checkpoint, invoke_subgraph, autograd.Function), the
body's inputs are those operands.  Where it calls it in its own way (scan, while_loop, map, flex_attention), the body
stands there with inputs of its own, and what the operator gave becomes an input too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, leaves, map_args
from torchsleuth.case.model import Case, Input, Level, Storage
from torchsleuth.reduce.edit import tidy
from torchsleuth.reduce.facts import concrete, symbol_values

_FIRST_BODY = ("tag_activation_checkpoint", "wrap", "wrap_activation_checkpoint")


def inlined(case: Case) -> list[Case]:
    """The Case without higher-order operators: with the first, and with the second branch of what has two."""
    if case.level is not Level.DYNAMO or not case.graph.bodies:
        return []
    found: list[Case] = []
    for branch in (0, 1):
        try:
            flat = _Inliner(case, branch).run()
        except _CannotInline:
            continue
        if flat not in found:
            found.append(flat)
    return found


class _CannotInline(Exception):
    """A body is used in a way that has no place in a flat graph."""


@dataclass
class _Inliner:
    case: Case
    branch: int
    nodes: list[Node] = field(default_factory=list)
    placeholders: list[Node] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    values: dict[str, Arg] = field(default_factory=dict)  # node of the old graph -> what it is now
    results: dict[str, Sequence[Arg] | None] = field(default_factory=dict)  # operator -> what its body gives
    extra: dict[str, Graph] = field(default_factory=dict)  # bodies within bodies
    tensors: dict[str, int] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.used = {n.name for n in self.case.graph.nodes}
        self.storages = list(self.case.storages)
        self.symbols = symbol_values(self.case)

    def run(self) -> Case:
        graph = self.case.graph
        self.placeholders += graph.placeholders
        self.inputs += self.case.inputs
        attributes = {n.name: n.target for n in graph.nodes if n.op is Op.GET_ATTR and n.target in graph.bodies}
        for node in graph.nodes:
            if node.op is Op.PLACEHOLDER or node.name in attributes:
                continue
            called = [attributes[leaf.name] for leaf in _refs(node) if leaf.name in attributes]
            if called:
                self._call(node, called, attributes)
            elif self._is_element(node):
                self.values[node.name] = self._element(node)
            else:
                self._emit(node, self.values)
        whole = Graph(
            (*self.placeholders, *self.nodes),
            {**graph.bodies, **self.extra},
            {**graph.tensors, **self.tensors},
            {**graph.modules, **self.modules},
            graph.unknown,
        )
        return tidy(replace(self.case, graph=whole, inputs=tuple(self.inputs), storages=tuple(self.storages)))

    def _call(self, node: Node, called: Sequence[str], attributes: Mapping[str, str]) -> None:
        bound = _binding(node, lambda leaf: isinstance(leaf, Ref) and leaf.name in attributes, self.branch)
        if bound is None:
            for path in called:
                self._body(path, None)
            self.results[node.name] = None
            return
        which, operands = bound
        outputs = self._body(called[min(which, len(called) - 1)], [self._now(o, self.values) for o in operands])
        if node.target.endswith("autograd_function_apply"):
            outputs = outputs[0] if outputs and isinstance(outputs[0], (list, tuple)) else outputs
        self.results[node.name] = outputs

    def _body(self, path: str, operands: Sequence[Arg] | None) -> Sequence[Arg]:
        """The body's nodes, under new names; what it returns."""
        body = self.case.graph.bodies[path]
        names: dict[str, Arg] = {}
        parameters = body.placeholders
        if operands is None:
            names |= {p.name: self._fresh_input(p) for p in parameters}
        elif len(operands) == len(parameters):
            names |= {p.name: o for p, o in zip(parameters, operands, strict=True)}
        else:
            raise _CannotInline(path)
        self.extra |= {f"{path}.{inner}": graph for inner, graph in body.bodies.items()}
        self.tensors |= {f"{path}.{inner}": index for inner, index in body.tensors.items()}
        self.modules |= {f"{path}.{inner}": text for inner, text in body.modules.items()}
        for node in body.nodes:
            if node.op is Op.OUTPUT:
                given = self._now(node.args[0], names) if node.args else ()
                return given if isinstance(given, (list, tuple)) else [given]
            if node.op is not Op.PLACEHOLDER:
                own = self._unused(node.name)
                names[node.name] = Ref(own)
                inside = node.op in (Op.GET_ATTR, Op.CALL_MODULE)
                moved = replace(node, name=own, target=f"{path}.{node.target}" if inside else node.target)
                self._emit(moved, names)
        raise _CannotInline(path)

    def _is_element(self, node: Node) -> bool:
        if not any(leaf.name in self.results for leaf in _refs(node)):
            return False
        if node.target in ("operator.getitem", "_operator.getitem") and isinstance(node.args[1], int):
            return True
        raise _CannotInline(node.name)

    def _element(self, node: Node) -> Arg:
        given = self.results[node.args[0].name]
        if given is None:
            return self._fresh_input(node)
        if not -len(given) <= node.args[1] < len(given):
            raise _CannotInline(node.name)
        return given[node.args[1]]

    def _fresh_input(self, like: Node) -> Ref:
        tensor = concrete(like.value, self.symbols) if like.value else None
        if tensor is None:
            raise _CannotInline(like.name)
        name = self._unused(like.name)
        self.storages.append(Storage(0))
        self.placeholders.append(replace(like, name=name, op=Op.PLACEHOLDER, target=name, args=(), kwargs={}, tags={}))
        self.inputs.append(replace(tensor, storage=len(self.storages) - 1))
        return Ref(name)

    def _emit(self, node: Node, names: Mapping[str, Arg]) -> None:
        kwargs = {k: self._now(v, names) for k, v in node.kwargs.items()}
        self.nodes.append(replace(node, args=self._now(node.args, names), kwargs=kwargs))

    def _now(self, value: Arg, names: Mapping[str, Arg]) -> Arg:
        return map_args(value, lambda leaf: names.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf)

    def _unused(self, wish: str) -> str:
        name, number = wish, 1
        while name in self.used:
            number += 1
            name = f"{wish}_{number}"
        self.used.add(name)
        return name


def _refs(node: Node) -> Iterator[Ref]:
    for leaf in leaves((node.args, dict(node.kwargs))):
        if isinstance(leaf, Ref):
            yield leaf


def _binding(node: Node, is_body: Callable[[Arg], bool], branch: int) -> tuple[int, Sequence[Arg]] | None:
    """Which body takes the place of the operator, and its operands; None where the operator calls it its own way."""
    word = node.target.rpartition(".")[2]
    args = node.args
    if word == "cond" and len(args) == 4 and isinstance(args[3], (list, tuple)):
        return branch, args[3]
    if word in _FIRST_BODY and args and is_body(args[0]):
        return 0, args[1:]
    if word == "invoke_subgraph" and len(args) >= 2 and is_body(args[0]):
        return 0, args[2:]
    if word == "autograd_function_apply" and len(args) >= 2:
        return 0, args[2:]
    if word in ("wrap_with_set_grad_enabled", "wrap_with_autocast"):
        place = next((i for i, a in enumerate(args) if is_body(a)), None)
        return None if place is None else (0, args[place + 1 :])
    return None
