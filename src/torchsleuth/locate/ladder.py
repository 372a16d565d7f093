"""The four-rung ladder: eager, aot_eager, aot_eager with decompositions and partitioner, the program's own backend.

The first rung on which the Case fails as the program did names the component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.model import Backend, Case
from torchsleuth.judge.outcome import Outcome, Verdict


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
    if component is Component.DECOMPOSITION:
        component = _decomposition_or_partitioner(failure, judge)
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


def _decomposition_or_partitioner(failure: Failure, judge: JudgeBackends) -> Component:
    """Without the decompositions, with Inductor's partitioner: still failing means the partitioner."""
    outcome = judge([PARTITIONER_ONLY])[0]
    return Component.PARTITIONER if _fails(outcome, failure) else Component.DECOMPOSITION


# A backend that exists only as source: aot_eager with the min-cut partitioner and no decompositions.
_PARTITIONER_SOURCE = """
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition

def nop(gm, inputs):
    return make_boxed_func(gm.forward)

aot_eager_partition = aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=min_cut_rematerialization_partition)
"""


def _partitioner_backend() -> Backend:
    from torchsleuth.case.model import Code

    return Backend("aot_eager_partition", False, code=Code("backend", "aot_eager_partition", _PARTITIONER_SOURCE))


PARTITIONER_ONLY = _partitioner_backend()


def _fails(outcome: Outcome, failure: Failure, any_way: bool = False) -> bool | None:
    if outcome.verdict is Verdict.PASSED:
        return False
    if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
        return None
    if any_way:
        return True
    if failure.kind in (Kind.CRASH, Kind.HANG, Kind.OUT_OF_MEMORY):
        return outcome.failure.kind is failure.kind
    return outcome.fails_like(failure.fingerprint)


def _said(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.FAILED and outcome.failure is not None:
        return outcome.failure.fingerprint.line
    return outcome.verdict.value + (f": {outcome.reason}" if outcome.reason else "")
