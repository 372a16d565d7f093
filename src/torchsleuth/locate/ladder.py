"""The four-rung ladder: eager, aot_eager, aot_eager with decompositions and partitioner, the program's own backend.

The first rung on which the Case fails as the program did names the component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.model import Backend, Case, Code, Tensor
from torchsleuth.judge.outcome import Outcome, Verdict, short_of_same_memory


class Component(str, Enum):
    DYNAMO = "dynamo"
    AOT = "aot"
    DECOMPOSITION = "decomposition"
    PARTITIONER = "partitioner"
    INDUCTOR = "inductor"
    BACKEND = "backend"
    UNKNOWN = "unknown"


RUNGS = (
    (Backend("eager"), Component.DYNAMO),
    (Backend("aot_eager"), Component.AOT),
    (Backend("aot_eager_decomp_partition"), Component.DECOMPOSITION),
)


@dataclass(frozen=True)
class Rung:
    backend: str
    fails: bool | None  # None: could not be judged
    said: str  # one line, for the table


@dataclass(frozen=True)
class Ladder:
    component: Component
    rungs: tuple[Rung, ...]


JudgeBackends = Callable[[Sequence[Backend]], Sequence[Outcome]]


def climb(case: Case, failure: Failure, judge: JudgeBackends) -> Ladder:
    """`judge` judges the Case on the backends given; the program's own is known to fail."""
    own = case.surroundings.backend
    below = _rungs_below(own)
    outcomes = judge([backend for backend, _ in below])
    # Inductor stands on every rung below it: one that fails in another way fails before Inductor can.
    any_way = own.registered and own.name == "inductor"
    rungs = [Rung(b.name, _fails(o, failure, any_way), _said(o)) for (b, _), o in zip(below, outcomes, strict=True)]
    rungs.append(Rung(own.name, True, failure.fingerprint.line))
    component = next((c for (_, c), rung in zip(below, rungs, strict=False) if rung.fails), None)
    if component is None:
        component = _component_of(own)
    if _trains(case):
        component = _without_partitioner(component, failure, judge, any_way)
    return Ladder(component, tuple(rungs))


def _rungs_below(own: Backend) -> list[tuple[Backend, Component]]:
    names = [b.name for b, _ in RUNGS]
    end = names.index(own.name) if own.registered and own.name in names else len(RUNGS)
    return list(RUNGS[:end])


def _component_of(own: Backend) -> Component:
    if not own.registered:
        return Component.BACKEND
    known = {b.name: c for b, c in RUNGS}
    return known.get(own.name, Component.INDUCTOR if own.name in ("inductor", "aotinductor") else Component.BACKEND)


def _trains(case: Case) -> bool:
    """Only then is there a partitioner, which cuts one graph into forward and backward."""
    return case.surroundings.grad and any(
        isinstance(v, Tensor) and v.requires_grad for v in (*case.inputs, *case.constants)
    )


def _without_partitioner(component: Component, failure: Failure, judge: JudgeBackends, any_way: bool) -> Component:
    """On both rungs of AOTAutograd the min-cut partitioner is on: what passes with torch's plain one is its fault."""
    plain = {Component.AOT: PLAIN_PARTITIONER, Component.DECOMPOSITION: PLAIN_PARTITIONER_DECOMPOSED}.get(component)
    if plain is None:
        return component
    return Component.PARTITIONER if _fails(judge([plain])[0], failure, any_way) is False else component


PLAIN_PARTITIONER = Backend("aot_eager_default_partitioner")

# A backend that exists only as source: aot_eager_decomp_partition with the plain partitioner.
_DECOMPOSED = """
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from functorch.compile import default_partition, make_boxed_func

def nop(gm, inputs):
    return make_boxed_func(gm.forward)

def aot_eager_decomp(gm, inputs):
    decompositions = select_decomp_table()
    compiler = aot_autograd(
        fw_compiler=nop, bw_compiler=nop, partition_fn=default_partition, decompositions=decompositions
    )
    return compiler(gm, inputs)
"""
PLAIN_PARTITIONER_DECOMPOSED = Backend("aot_eager_decomp", False, code=Code("backend", "aot_eager_decomp", _DECOMPOSED))


def _fails(outcome: Outcome, failure: Failure, any_way: bool = False) -> bool | None:
    if outcome.verdict is Verdict.PASSED:
        return False
    if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
        return None
    if any_way:
        return True
    if failure.kind is Kind.OUT_OF_MEMORY:
        return short_of_same_memory(outcome.failure, failure)
    if failure.kind in (Kind.CRASH, Kind.HANG):
        return outcome.failure.kind is failure.kind
    return outcome.fails_like(failure.fingerprint)


def _said(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.FAILED and outcome.failure is not None:
        return outcome.failure.fingerprint.line
    return outcome.verdict.value + (f": {outcome.reason}" if outcome.reason else "")
