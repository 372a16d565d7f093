"""A smaller Case: some operators kept, the values that the others made taken from elsewhere.

What a dropped operator gave is the nearest value it was made of that looks the same (bypass; where asked for, one of
any size), else a new input of the graph that looks the same (cut).  So every subset of the operators makes a legal
graph: no name is left unbound.  A bridge leads on from what is kept where neither does: an element of it, expanded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, Value, inputs_of, leaves, map_args, picks
from torchsleuth.case.model import Case, Input, Level, Role, Storage, Tensor
from torchsleuth.operators.properties import is_in_place
from torchsleuth.reduce.cone import memories
from torchsleuth.reduce.facts import Facts

_FAR, _WIDE = 4, 8  # how far up, and among how many values, one that looks the same is looked for
Look = tuple[str, tuple[int | str, ...], str]  # dtype, shape, device
_FLOATING = ("torch.float", "torch.bfloat", "torch.complex")


@dataclass
class _Builder:
    """Builds the smaller graph in the order of the larger one."""

    case: Case
    facts: Facts
    keep: Collection[str]
    bypass: bool
    any_size: bool
    bridge: bool
    other: int  # which of several that look the same
    nodes: list[Node] = field(default_factory=list)
    placeholders: list[Node] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    values: dict[str, Arg] = field(default_factory=dict)
    extra_storages: list[Storage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by_name: Mapping[str, Node] = {n.name: n for n in self.case.graph.nodes}
        pairs = zip(self.case.graph.placeholders, self.case.inputs, strict=True)
        self.given: Mapping[str, Input] = {n.name: value for n, value in pairs}
        kept = (n for n in self.case.graph.nodes if n.name in self.keep)
        self.changed_in_place = frozenset(name for node in kept for name in changed_by(node))

    def value(self, name: str) -> Arg:
        """What a reference to `name` becomes; made when it is first needed."""
        passed = []
        while name not in self.values:
            other = self._same_looking_input(name) if self.bypass else None
            if other is None:
                self.values[name] = self._source(name)
            else:
                passed.append(name)
                name = other
        for one in passed:
            self.values[one] = self.values[name]
        return self.values[name]

    def _source(self, name: str) -> Arg:
        node = self.by_name[name]
        if node.op is Op.PLACEHOLDER:
            return self._placeholder(node, self.given[name])
        if node.op is Op.GET_ATTR:
            self.nodes.append(node)
            return Ref(name)
        if name in self.facts.numbers:
            return self.facts.numbers[name]
        tensor = self.facts.tensors.get(name)
        if tensor is None:
            raise CannotDrop(name)
        if self.bridge and (bridged := self._bridged(node, tensor)) is not None:
            return bridged
        cut = replace(node, op=Op.PLACEHOLDER, target=name, args=(), kwargs={}, tags={})
        return self._placeholder(cut, self._fresh(tensor, changed=name in self.changed_in_place))

    def _same_looking_input(self, dropped: str) -> str | None:
        """A value that can stand for what a dropped operator gave: the nearest one that it was made of."""
        mine = self._look(dropped)
        # Of numbers only floats (an integer is a size, and another would not fit), and one that is kept: else its own.
        number = isinstance(self.facts.numbers.get(dropped), float)
        if (mine is None and not number) or not self.by_name[dropped].is_call:
            return None
        level, seen = [dropped], {dropped}
        for _ in range(_FAR):
            level = [name for made in level for name in inputs_of(self.by_name[made]) if name not in seen][:_WIDE]
            seen.update(level)
            found = [name for name in level if self._stands_for(name, mine)]
            if found:
                return found[min(self.other, len(found) - 1)]
        return None

    def _stands_for(self, name: str, mine: Look | None) -> bool:
        if mine is None:
            return name in self.keep and isinstance(self.facts.numbers.get(name), float)
        other = self._look(name)
        return other is not None and (other[0], other[2]) == (mine[0], mine[2]) and (self.any_size or other == mine)

    def _look(self, name: str) -> Look | None:
        """Sizes that nobody knows any more are the same where they are written alike; eager says whether they fit."""
        known = self.facts.tensors.get(name) or self.by_name[name].value
        return (known.dtype, known.shape, known.device) if known is not None else None

    def _bridged(self, node: Node, mine: Tensor) -> Arg | None:
        """One element of a kept value that it was made of, as often as needed: what flows on there still does."""
        level, seen = [node.name], {node.name}
        while level:
            level = [name for made in level for name in inputs_of(self.by_name[made]) if name not in seen][:_WIDE]
            seen.update(level)
            for name in level:
                other = self.facts.tensors.get(name)
                kept = self.values.get(name) == Ref(name) and self.by_name[name].is_call
                if kept and other is not None and (other.dtype, other.device) == (mine.dtype, mine.device):
                    return self._expanded(node, Ref(name), other, mine)
        return None

    def _expanded(self, node: Node, source: Ref, look: Tensor, mine: Tensor) -> Arg:
        value = Value(mine.dtype, mine.shape, device=mine.device)
        one = replace(
            node, name=f"{node.name}_one", op=Op.CALL_FUNCTION, target="operator.getitem",
            args=(source, (0,) * len(look.shape)), kwargs={}, value=replace(value, shape=()),
        )  # fmt: skip
        wide = replace(
            node, op=Op.CALL_METHOD, target="expand", args=(Ref(one.name) if look.shape else source, mine.shape),
            kwargs={}, value=value,
        )  # fmt: skip
        self.nodes += [one, wide] if look.shape else [wide]
        return Ref(wide.name)

    def _fresh(self, tensor: Tensor, *, changed: bool) -> Tensor:
        """A new input: memory of its own, and a gradient where the graph had one.

        Autograd lets nobody change a leaf in place: what a kept operator changes is the result of something.
        """
        self.extra_storages.append(Storage(0))
        number = len(self.case.storages) + len(self.extra_storages) - 1
        return replace(tensor, storage=number, offset=0, role=Role.ARGUMENT, leaf=not changed, flags=(), source="")

    def _placeholder(self, node: Node, value: Input) -> Arg:
        self.placeholders.append(node)
        self.inputs.append(value)
        return Ref(node.name)

    def mapped(self, value: Arg) -> Arg:
        return map_args(value, lambda leaf: self.value(leaf.name) if isinstance(leaf, Ref) else leaf)

    def emit(self, node: Node) -> None:
        args = self.mapped(node.args)
        kwargs = {k: self.mapped(v) for k, v in node.kwargs.items()}
        self.nodes.append(replace(node, args=args, kwargs=kwargs))
        self.values[node.name] = Ref(node.name)


class CannotDrop(Exception):
    """A value that nobody can make up is needed: the operator that gives it must stay."""


def keep_only(
    case: Case,
    keep: Collection[str],
    facts: Facts,
    *,
    bypass: bool = True,
    any_size: bool = False,
    bridge: bool = False,
    other: int = 0,
) -> Case:
    """The Case with only the operators `keep`; its outputs are what they give and nobody reads.

    Where several values can stand for what a dropped operator gave, the first does, or an`other` of them.
    """
    graph = case.graph
    builder = _Builder(case, facts, keep, bypass, any_size, bridge, other)
    free = picks(graph)
    for node in graph.nodes:
        wanted = node.name in keep and node.is_call
        if wanted or (node.name in free and _kept_whole(node, builder)):
            builder.emit(node)
    output = replace(graph.output, args=(tuple(_outputs(graph, builder)),))
    smaller = Graph(
        (*builder.placeholders, *builder.nodes, output), graph.bodies, graph.tensors, graph.modules, graph.unknown
    )
    storages = (*case.storages, *builder.extra_storages)
    found = tidy(replace(case, graph=smaller, inputs=tuple(builder.inputs), storages=storages, context=_context(case)))
    if not (output.args[0] or may_give_nothing(found)):
        raise CannotDrop("everything that gives a value")
    return found


def may_give_nothing(case: Case) -> bool:
    """Whether it has an effect without a result: what it writes to its inputs is seen by whoever called it."""
    return case.level is Level.DYNAMO and not case.phase.backward and _changes_inputs(case.graph.nodes)


def _changes_inputs(nodes: Sequence[Node]) -> bool:
    given = {n.name for n in nodes if n.op is Op.PLACEHOLDER}
    memory = memories(nodes)
    return any(memory[name] in given for node in nodes for name in changed_by(node))


def _context(case: Case) -> Mapping[str, Any]:
    """Of an ATen graph: what speaks of inputs and outputs by number no longer holds."""
    if case.level is not Level.ATEN:
        return case.context
    kwargs = {k: v for k, v in (case.context.get("kwargs") or {}).items() if k != "static_input_idxs"}
    return {**case.context, "kwargs": kwargs, "output": {}}


def _kept_whole(node: Node, builder: _Builder) -> bool:
    first = node.args[0]
    return isinstance(first, Ref) and builder.values.get(first.name) == first


def _outputs(graph: Graph, builder: _Builder) -> list[Arg]:
    read = {name for node in builder.nodes for name in inputs_of(node)}
    was_output = {leaf.name for leaf in leaves(graph.output.args) if isinstance(leaf, Ref)}
    # What nobody read before (the result of an operator that changes its input) would be one alias more: it hides bugs.
    was_read = {name for node in graph.nodes for name in inputs_of(node)}
    made = [n for n in builder.nodes if n.is_call]
    unread = [n.name for n in made if n.value is not None and (n.name not in read or n.name in was_output)]
    found = [name for name in unread if name in was_read] or _written_whole(builder, unread) or unread
    if not (found or _changes_inputs((*builder.placeholders, *builder.nodes))):
        found = [n.name for n in made if n.value is not None][-1:]
    return [Ref(name) for name in found]


def _written_whole(builder: _Builder, unread: Collection[str]) -> list[str]:
    """What unread operators wrote to: all of a value made here, of which they may have written, and give, a part."""
    memory = memories((*builder.placeholders, *builder.nodes))
    written = {memory[name] for node in builder.nodes if node.name in unread for name in changed_by(node)}
    return [n.name for n in builder.nodes if n.name in written and n.is_call and n.value is not None]


def without_unread_picks(graph: Graph) -> Graph:
    """An element that nobody takes out of its tuple any more would be a statement without a meaning."""
    read = {name for node in graph.nodes for name in inputs_of(node)}
    unread = picks(graph) - read
    return replace(graph, nodes=tuple(n for n in graph.nodes if n.name not in unread)) if unread else graph


def tidy(case: Case) -> Case:
    """Without bodies, constants and inputs that nobody names any more."""
    graph = without_unread_picks(case.graph)
    attributes = {n.target for n in graph.nodes if n.op is Op.GET_ATTR} | {
        n.target for n in graph.nodes if n.op is Op.CALL_MODULE
    }
    read = {name for node in graph.nodes for name in inputs_of(node)}
    pairs = [(n, v) for n, v in zip(graph.placeholders, case.inputs, strict=True) if n.name in read]
    rest = [n for n in graph.nodes if n.op is not Op.PLACEHOLDER]
    smaller = Graph(
        (*(n for n, _ in pairs), *rest),
        {k: v for k, v in graph.bodies.items() if k in attributes},
        {k: v for k, v in graph.tensors.items() if _owner(k, attributes)},
        {k: v for k, v in graph.modules.items() if k in attributes},
        {k: v for k, v in graph.unknown.items() if k in attributes},
    )
    return replace(case, graph=smaller, inputs=tuple(v for _, v in pairs))


def _owner(path: str, attributes: Collection[str]) -> bool:
    return path in attributes or any(path.startswith(f"{a}.") for a in attributes)


def changed_by(node: Node) -> Iterator[str]:
    """The value that an operator changes in place: by convention its first argument, where its name says so."""
    in_place = node.op is not Op.CALL_MODULE and is_in_place(node.target)
    if in_place and node.args and isinstance(node.args[0], Ref):
        yield node.args[0].name


def is_floating(dtype: str) -> bool:
    return dtype.startswith(_FLOATING)
