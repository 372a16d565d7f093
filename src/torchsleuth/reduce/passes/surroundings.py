"""Configs, environment, switches, contexts and options that do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.model import Case, Code, Surroundings


def propose(case: Case) -> Iterator[Case]:
    now = case.surroundings
    bare = replace(
        now, configs=(), environment={}, switches={}, autocast=(), inference=False, dynamic=None,
        backend=replace(now.backend, options={}, mode=None), code=tuple(c for c in now.code if not _may_go(c)),
    )  # fmt: skip
    if bare != now:
        yield replace(case, surroundings=bare)
        for simpler in _one_by_one(now):
            yield replace(case, surroundings=simpler)
    if not case.phase.backward and (now.grad is False or now.inference) and not _asks_gradients(case):
        yield replace(case, surroundings=replace(now, grad=True, inference=False))


def _may_go(code: Code) -> bool:
    """What changes the compiler, and nothing in the graph refers to: patches, and passes of the user's in configs."""
    return code.what.startswith(("patch of", "config "))


def _asks_gradients(case: Case) -> bool:
    return any(getattr(value, "requires_grad", False) for value in case.inputs)


def _one_by_one(now: Surroundings) -> Iterator[Surroundings]:
    for i in range(len(now.configs)):
        yield replace(now, configs=now.configs[:i] + now.configs[i + 1 :])
    for name in now.environment:
        yield replace(now, environment={k: v for k, v in now.environment.items() if k != name})
    for name in now.switches:
        yield replace(now, switches={k: v for k, v in now.switches.items() if k != name})
    for code in filter(_may_go, now.code):
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
