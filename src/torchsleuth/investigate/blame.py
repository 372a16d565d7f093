"""Which part of the compiler is to blame, by the program itself: on one backend after the other.

Blame needs an unchanged program that fails again, a change with which it passes as often as it takes to tell that from
luck, and a smaller change with which it fails in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torchsleuth.case.failure import Failure
from torchsleuth.investigate import sketches
from torchsleuth.investigate.repeating import Repeats, passes_each_time
from torchsleuth.investigate.rerun import Again, RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.watch.session import Process

Say = Callable[[str], None]


@dataclass(frozen=True)
class Blamed:
    component: str
    why: str  # the end of a sentence about the program


_ENOUGH_SKETCHES = 8
_RUNGS = (
    ("eager", "dynamo", "Dynamo"),
    ("aot_eager", "aot", "AOTAutograd"),
    ("aot_eager_decomp_partition", "decomposition", "a decomposition"),
)


def who_is_to_blame(
    again: Again, process: Process, say: Say, repeats: Repeats, failure: Failure | None = None
) -> Blamed | None:
    """The program on one backend after the other, each with one layer of the compiler more.

    None: some rerun ended in another way, or was not seen to end, or passes are too few to tell from luck.
    """
    below: Callable[[int], RerunOutcome] = partial(off, again, failure)
    if not passes_enough(below, repeats):
        return None
    passed = "with compilation off"
    for backend, component, name in _RUNGS:
        say(f"once more, with every graph on {backend}")
        run = partial(_on, again, backend, failure)
        outcome = passes_each_time(run, repeats.needed or 1)
        if outcome.match is Match.SAME:
            say(f"it fails so: once more {passed}, where it passed")
            if below(_MORE).match is not Match.PASSED:
                return None
            return Blamed(component, f"fails in the same way with every graph on {backend}: {name} is to blame")
        if outcome.match is not Match.PASSED:
            return None
        below, passed = run, f"with every graph on {backend}"
    say(f"it passes so: once more {passed}")
    if below(_MORE).match is not Match.PASSED:
        return None
    component = _backend_of(process)
    name = "Inductor" if component == "inductor" else "the backend"
    return Blamed(component, f"passes with every graph on {_RUNGS[-1][0]}: {name} is to blame")


_MORE = 1  # the number of an attempt that is not the first


def off(again: Again, failure: Failure | None, attempt: int) -> RerunOutcome:
    return again.without_compiling(failure, once_more=attempt > 0)


def _on(again: Again, backend: str, failure: Failure | None, attempt: int) -> RerunOutcome:
    return again.with_backend(backend, failure, once_more=attempt > 0)


def passes_enough(run: Callable[[int], RerunOutcome], repeats: Repeats) -> bool:
    return repeats.needed is not None and passes_each_time(run, repeats.needed).match is Match.PASSED


def _backend_of(process: Process) -> str:
    """Inductor, or what the program uses in its place.  Torch compiles too, for loops outside of compiled code."""
    places = sorted((process.folder / "sketches").glob("*"))
    readable = itertools.islice(sketches.whole(places), _ENOUGH_SKETCHES)
    backends = [case.surroundings.backend for case in readable]
    if not places or any(b.registered and b.name == "inductor" for b in backends):
        return "inductor"
    return "backend" if backends else "unknown"
