"""Find the component to blame by running the Case on four backends, each with one layer of the compiler more.

The rungs are eager, aot_eager, aot_eager_decomp_partition, and the program's own backend.  The first on which the Case
fails in the same way names the component, provided that it passes on every rung below.  A rung that fails otherwise or
was not judged says nothing, and then no component is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure
from torchsleuth.case.model import Backend, Case, Code, Tensor
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.judgement import Judgement
from torchsleuth.judge.match import Match, combine
from torchsleuth.judge.outcome import Outcome, Verdict


class Component(str, Enum):
    """A part of the compiler, or of the program, that can be to blame."""

    DYNAMO = "dynamo"
    AOT = "aot"
    DECOMPOSITION = "decomposition"
    PARTITIONER = "partitioner"
    INDUCTOR = "inductor"
    BACKEND = "backend"
    USER = "user"  # code of the program's own that the compiler runs
    UNKNOWN = "unknown"


RUNGS = (
    (Backend("eager"), Component.DYNAMO),
    (Backend("aot_eager"), Component.AOT),
    (Backend("aot_eager_decomp_partition"), Component.DECOMPOSITION),
)


@dataclass(frozen=True)
class Rung:
    """The Case on one backend."""

    backend: str
    match: Match
    said: str  # one line, for the table
    judgements: tuple[Judgement, ...] = ()

    @property
    def fails(self) -> bool | None:
        """Return whether it fails in the same way; None where it did neither that nor pass."""
        return {Match.SAME: True, Match.PASSED: False}.get(self.match)


@dataclass(frozen=True)
class Ladder:
    """The rungs, and the component that they show to be at fault."""

    component: Component
    rungs: tuple[Rung, ...]
    unpartitioned: Rung | None = None  # the failing rung with torch's plain partitioner


JudgeBackends = Callable[[Sequence[Backend]], Sequence[Sequence[Tried]]]  # for each backend, one entry a run


def climb(case: Case, failure: Failure, judge: JudgeBackends) -> Ladder:
    """Judge the Case on the backends below its own, which is known to fail."""
    own = case.surroundings.backend
    below = _rungs_below(own)
    answers = judge([backend for backend, _ in below])
    rungs = [_rung(b.name, runs, failure) for (b, _), runs in zip(below, answers, strict=True)]
    # The user's own backend need not stand on AOTAutograd, so what fails otherwise there says nothing about it.
    stands_on = len(rungs) if own.registered else 1
    component = _first_failing([c for _, c in below], rungs, stands_on, _component_of(own))
    rungs.append(Rung(own.name, Match.SAME, failure.fingerprint.line))
    plain = _PLAIN.get(component) if _trains(case) else None
    if plain is None:
        return Ladder(component, tuple(rungs))
    # On both rungs of AOTAutograd the min-cut partitioner is on: what passes with the plain one is its fault.
    unpartitioned = _rung(plain.name, judge([plain])[0], failure)
    passes = unpartitioned.match is Match.PASSED
    return Ladder(Component.PARTITIONER if passes else component, tuple(rungs), unpartitioned)


def _rung(backend: str, runs: Sequence[Tried], failure: Failure) -> Rung:
    matches = [tried.matches(failure) for tried in runs]
    if not runs:
        return Rung(backend, Match.UNKNOWN, "it was not judged")
    found = combine(matches)
    shown = next((t for t, m in zip(runs, matches, strict=True) if m is found), runs[0])
    backing = [t.judgement for t, m in zip(runs, matches, strict=True) if m is found and t.judgement is not None]
    return Rung(backend, found, _said(shown.outcome), tuple(backing))


def _first_failing(components: Sequence[Component], rungs: Sequence[Rung], stands_on: int, own: Component) -> Component:
    """Name the first rung that fails; below it, the first `stands_on` rungs must have passed."""
    for place, (component, rung) in enumerate(zip(components, rungs, strict=True)):
        if rung.match is Match.SAME:
            return component
        if rung.match is not Match.PASSED and place < stands_on:
            return Component.UNKNOWN
    return own


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
    """Return whether there is a partitioner, which cuts one graph into forward and backward."""
    return case.surroundings.grad and any(
        isinstance(v, Tensor) and v.requires_grad for v in (*case.inputs, *case.constants)
    )


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
_PLAIN = {Component.AOT: PLAIN_PARTITIONER, Component.DECOMPOSITION: PLAIN_PARTITIONER_DECOMPOSED}


def _said(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.FAILED and outcome.failure is not None:
        return outcome.failure.fingerprint.line
    return outcome.verdict.value + (f": {outcome.reason}" if outcome.reason else "")
