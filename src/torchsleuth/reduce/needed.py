"""Propose to take out each part of a reduced Case, alone: what the Case passes without is needed for it to fail.

The reducer has tried most of this already, but on larger Cases and by other ways; a sentence about the final script
needs a judgement of the final script.  A dropped operator's place is taken by the value that eager gives there, where
that is small enough to be written down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchsleuth.case.effects import draws
from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Node
from torchsleuth.case.model import Case, Surroundings, Tensor
from torchsleuth.case.operator_names import LOWERS_VERSION, SETS_DATA
from torchsleuth.case.program.names import short_name
from torchsleuth.case.program.values import contiguous_stride, is_contiguous
from torchsleuth.reduce import bodies
from torchsleuth.reduce.edit import CannotDrop, keep_only
from torchsleuth.reduce.facts import Facts, from_graph
from torchsleuth.reduce.passes import dynamic
from torchsleuth.reduce.units import Unit, units

_MOST = 24


@dataclass(frozen=True)
class Part:
    """One thing that a Case has, and the Case without it."""

    name: str
    without: Case


def parts(case: Case, facts: Facts | None = None) -> list[Part]:
    """List the parts of a Case that can be taken out alone; `facts` holds values that eager gave."""
    known = _by_value(from_graph(case).known_better(facts) if facts is not None else from_graph(case))
    found = [*_operators(case, known), *_in_bodies(case), *_settings(case), *_inputs(case)]
    return [one for one in found if one.without != case][:_MOST]


def _by_value(facts: Facts) -> Facts:
    tensors = {n: replace(t, fill="literal") if t.literal else t for n, t in facts.tensors.items()}
    return Facts(tensors, facts.numbers)


def _operators(case: Case, facts: Facts) -> Iterator[Part]:
    everything = units(case.graph)
    if len(everything) < 2:
        return
    nodes = {n.name: n for n in case.graph.nodes}
    names = _numbered([_name(unit, nodes) for unit in everything])
    for unit, name in zip(everything, names, strict=True):
        if nodes[min(unit)].target == LOWERS_VERSION:  # a part of the assignment before it
            continue
        left = frozenset().union(*(u for u in everything if u is not unit))
        try:
            yield Part(name, keep_only(case, left, facts, bypass=False))
        except CannotDrop:
            continue


def _name(unit: Unit, nodes: Mapping[str, Node]) -> str:
    targets = dict.fromkeys(nodes[name].target for name in sorted(unit))
    words = ["an assignment to .data" if t == SETS_DATA else t for t in targets]
    return words[0] if len(words) == 1 else f"{words[0]} and what belongs to it"


def _numbered(names: list[str]) -> list[str]:
    """Tell several calls of one operator apart."""
    counts, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if counts[name] == 1 else f"{name} (call {seen[name]} of {counts[name]})")
    return found


def _in_bodies(case: Case) -> Iterator[Part]:
    for path in bodies.paths(case.graph):
        inside = bodies.units_in(case.graph, path)
        body = case.graph
        for name in path:
            body = body.bodies[name]
        nodes = {n.name: n for n in body.nodes}
        for unit in inside:
            left = frozenset().union(*(u for u in inside if u is not unit))
            smaller = bodies.keep_inside(case, path, left)
            if smaller is not None:
                yield Part(f"{_name(unit, nodes)} in {'.'.join(path)}", smaller)


def _settings(case: Case) -> Iterator[Part]:
    now = case.surroundings

    def without(**fields: Any) -> Case:
        return replace(case, surroundings=replace(now, **fields))

    for module, entry, value in now.configs:
        if case.check is not None and entry == "fallback_random" and draws(case.graph):
            continue  # without it compiled code draws other numbers than eager, and any such graph looks wrong
        kept = tuple(c for c in now.configs if c[:2] != (module, entry))
        yield Part(f"{module}.{entry} = {value!r}", without(configs=kept))
    for name, text in now.environment.items():
        yield Part(f"{name}={text} in the environment", without(environment=_less(now.environment, name)))
    for name, setting in now.switches.items():
        yield Part(f"{name.replace('_', ' ')} {setting}", without(switches=_less(now.switches, name)))
    if now.backend.mode:
        yield Part(f"mode={now.backend.mode!r}", without(backend=replace(now.backend, mode=None)))
    for name, option in now.backend.options.items():
        options = _less(now.backend.options, name)
        yield Part(f"the option {name}={option!r}", without(backend=replace(now.backend, options=options)))
    for cast in now.autocast:
        kept_casts = tuple(c for c in now.autocast if c is not cast)
        yield Part(f"autocast to {cast.dtype} on {cast.device}", without(autocast=kept_casts))
    if now.inference:
        yield Part("inference mode", without(inference=False, grad=False))
    elif not now.grad:
        yield Part("no_grad", without(grad=True))
    if now.cache_hit:
        yield Part("a second run on a filled cache", without(cache_hit=False))
    static = next(iter(dynamic.propose(case)), None)
    if now.dynamic and static is None:
        yield Part("dynamic=True", without(dynamic=None))
    elif static is not None:
        yield Part("dynamic shapes", replace(static, surroundings=_static(static.surroundings)))
    if case.phase.backward:
        forward = Phase.COMPILE_FORWARD if case.phase.compiling else Phase.RUN_FORWARD
        yield Part("the backward", replace(case, phase=forward))


def _static(surroundings: Surroundings) -> Surroundings:
    return replace(surroundings, dynamic=False)


def _less(items: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in items.items() if k != name}


def _inputs(case: Case) -> Iterator[Part]:
    for place, (node, value) in enumerate(zip(case.graph.placeholders, case.inputs, strict=True)):
        if not isinstance(value, Tensor):
            continue
        name = short_name(value.source, node.name)
        for what, plain in _plainer(value, case):
            inputs = (*case.inputs[:place], plain, *case.inputs[place + 1 :])
            yield Part(f"{what} of {name}", replace(case, inputs=inputs))


def _plainer(tensor: Tensor, case: Case) -> Iterator[tuple[str, Tensor]]:
    if tensor.requires_grad and not case.phase.backward:
        yield "requires_grad", replace(tensor, requires_grad=False)
    shared = sum(isinstance(v, Tensor) and v.storage == tensor.storage for v in case.inputs) > 1
    if not is_contiguous(tensor) and not shared and not tensor.unknown:
        yield f"strides {list(tensor.stride)}", replace(tensor, stride=contiguous_stride(tensor.shape), offset=0)
    if tensor.flags:
        yield " and ".join(tensor.flags), replace(tensor, flags=())
