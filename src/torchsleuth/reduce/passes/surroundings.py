"""Configs, environment, switches, contexts and options that do not matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torchsleuth.case import user_kernels
from torchsleuth.case.effects import draws
from torchsleuth.case.ir import Graph, Node
from torchsleuth.case.model import Case, Code, Surroundings

Config = tuple[str, str, Any]


def propose(case: Case) -> Iterator[Case]:
    now = case.surroundings
    loose = [c for c in now.code if _may_go(c, case.graph)]
    stay = tuple(config for config in now.configs if _makes_comparable(config, case))
    bare = replace(
        now, configs=stay, environment={}, switches={}, autocast=(), inference=False, dynamic=None,
        backend=replace(now.backend, options={}, mode=None), code=tuple(c for c in now.code if c not in loose),
    )  # fmt: skip
    if bare != now:
        yield replace(case, surroundings=bare)
        for simpler in _one_by_one(now, loose, stay):
            yield replace(case, surroundings=simpler)
    if not case.phase.backward and (now.grad is False or now.inference) and not _asks_gradients(case):
        yield replace(case, surroundings=replace(now, grad=True, inference=False))


def _makes_comparable(config: Config, case: Case) -> bool:
    """Without it compiled code draws other random numbers than eager, and any graph that draws looks wrong."""
    return case.check is not None and config[1] == "fallback_random" and draws(case.graph)


def _may_go(code: Code, graph: Graph) -> bool:
    """What nothing in the graph refers to: patches of the compiler, passes in configs, operators that are gone."""
    kind, _, name = code.what.partition(" ")
    if kind == "operator":
        target = f"torch.ops.{name.replace('::', '.')}"
        return not any(n.target == target or n.target.startswith(f"{target}.") for n in _nodes(graph))
    if code.what.startswith("triton kernel "):
        return not any(user_kernels.what(str(n.kwargs.get("kernel"))) == code.what for n in _nodes(graph))
    return code.what.startswith(("patch of", "config "))


def _nodes(graph: Graph) -> Iterator[Node]:
    return (node for one in graph.all_graphs() for node in one.nodes)


def _asks_gradients(case: Case) -> bool:
    return any(getattr(value, "requires_grad", False) for value in case.inputs)


def _one_by_one(now: Surroundings, loose: Sequence[Code], stay: Sequence[Config]) -> Iterator[Surroundings]:
    for config in now.configs:
        if config not in stay:
            yield replace(now, configs=tuple(c for c in now.configs if c is not config))
    for name in now.environment:
        yield replace(now, environment={k: v for k, v in now.environment.items() if k != name})
    for name in now.switches:
        yield replace(now, switches={k: v for k, v in now.switches.items() if k != name})
    for code in loose:
        yield replace(now, code=tuple(c for c in now.code if c is not code))
    for i in range(len(now.autocast)):
        yield replace(now, autocast=now.autocast[:i] + now.autocast[i + 1 :])
    for name in now.backend.options:
        kept = {k: v for k, v in now.backend.options.items() if k != name}
        yield replace(now, backend=replace(now.backend, options=kept))
    if now.backend.mode:
        yield replace(now, backend=replace(now.backend, mode=None))
    if now.inference:
        yield replace(now, inference=False, grad=False)
    if now.dynamic is not None:
        yield replace(now, dynamic=None)
