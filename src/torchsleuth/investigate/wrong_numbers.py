"""A program that failed although nothing of the compiler's did: are its numbers wrong, and whose fault is that?

It is run once more with every compiled graph compared with eager at its first calls.  Where all are right, it is run
with compilation off (does it fail by itself?) and with every graph in eager (is it Dynamo?).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from torchsleuth.case.failure import Kind, Phase, of_signal, wrong_numbers
from torchsleuth.investigate import sketches
from torchsleuth.investigate.rerun import NO_GRAPH_CACHE, Again
from torchsleuth.watch.found import Found, Summary
from torchsleuth.watch.session import Process

Say = Callable[[str], None]


@dataclass(frozen=True)
class Looked:
    summary: Summary
    notes: tuple[str, ...] = ()


def look(summary: Summary, again: Again, say: Say) -> Looked:
    """The summary with what was found, and with how many graphs were compared."""
    say("the program failed and the compiler did not: once more, comparing every compiled graph with eager")
    second = again.with_numbers("backward" if summary.backward else "forward")
    notes = [f"the program was run once more, and {_graphs(second.checked)} compared with eager"]
    process = summary.reference or second.reference
    seen = replace(
        summary, checked=second.checked, excused=second.excused, reference=process, too_large=second.too_large
    )
    if _wrong(second):
        return Looked(replace(seen, found=_wrong(second)), tuple(notes))
    crashed = tuple(f for f in second.found if f.failure.kind is Kind.CRASH and f.case is not None)
    if crashed:
        return Looked(replace(seen, found=crashed), tuple(notes))
    say("no graph is wrong: once more, with compilation off")
    in_eager = again.fails_in_eager()
    if in_eager is not False:  # nothing that follows tells a fault of the compiler's from one of the program's own
        return Looked(seen, (*notes, "it fails with compilation off, too" if in_eager else EAGER_NOT_SEEN_TO_END))
    if second.exit_code == 0:
        say("it passed while it was compared, drawing random numbers as eager does: once more, drawing its own")
        third = again.with_numbers("kinds")
        if _wrong(third):
            return Looked(replace(seen, found=_wrong(third)), tuple(notes))
        return _hidden(seen, again, say, tuple(notes))
    looked = whose(seen, again, say, tuple(notes))
    return _in_another_order(looked, again, say) if second.strides else looked


def _in_another_order(looked: Looked, again: Again, say: Say) -> Looked:
    """Of a program that fails below Dynamo although no number is wrong: a result whose strides are."""
    if not looked.summary.found or looked.summary.found[0].component == "dynamo":
        return looked
    say("a result has other strides than eager's: once more, to keep that graph")
    found = _wrong(again.with_numbers("strides"))
    return Looked(replace(looked.summary, found=found), (*looked.notes[:-1], _STRIDES)) if found else looked


def died_before_graphs(summary: Summary, number: int, again: Again, say: Say) -> Looked:
    """Of a program that a signal ended before Dynamo had handed on a graph: is it why?"""
    say("the program died before anything was compiled: once more, with compilation off")
    in_eager = again.fails_in_eager()
    if in_eager:
        return Looked(summary, ("it dies with compilation off, too",))
    assert summary.reference is not None
    found = Found(of_signal(number, Phase.COMPILE_FORWARD), None, summary.reference, ended_program=True)
    if in_eager is None:  # it died, and that may be proven from its own file yet; nobody is blamed
        return Looked(replace(summary, found=(found,)), (EAGER_NOT_SEEN_TO_END,))
    found = replace(found, component="dynamo")
    note = "the program passes with compilation off; it dies before Dynamo has handed on a graph: Dynamo is to blame"
    return Looked(replace(summary, found=(found,)), (note,))


def _hidden(seen: Summary, again: Again, say: Say, notes: tuple[str, ...]) -> Looked:
    """Of a program that passes whenever its graphs are compared: does comparing hide what is wrong?"""
    say("it passed: once more, comparing nothing and drawing random numbers as eager does")
    if again.passes_alone() is not False:
        return Looked(seen, (*notes, _PASSED))
    # It passed with the same rounding when it was compared: that is not why it fails.
    looked = whose(replace(seen, excused=()), again, say, (*notes, _HIDDEN))
    if not looked.summary.found or looked.summary.found[0].component == "dynamo":
        return looked
    say("once more, without torch's caches of compiled graphs")
    if not again.passes_alone(cached=False):
        return looked
    found = replace(looked.summary.found[0], workaround=_WITHOUT_CACHE)
    return Looked(replace(looked.summary, found=(found,)), (*looked.notes, _CACHED))


def whose(seen: Summary, again: Again, say: Say, notes: tuple[str, ...] = ()) -> Looked:
    """Of a program that passes with compilation off, and of which no graph is wrong alone."""
    say("it passes so: once more, with every graph in eager")
    passes = again.passes_with_graphs_on("eager")
    if passes is None:
        return Looked(seen, (*notes, _NOT_SEEN_TO_END))
    if not passes:
        note = "it passes with compilation off and fails with every graph run in eager: Dynamo is to blame"
        return Looked(replace(seen, found=(_blamed("dynamo", seen),)), (*notes, note))
    rounding = _why_rounding(again, say) if seen.excused else ""
    if rounding:
        told = [f"compiled differs from eager, and is not wrong: {line}" for line in seen.excused[:3]]
        return Looked(seen, (*notes, *told, rounding))
    assert seen.reference is not None
    blamed = below_dynamo(again, seen.reference, say)
    if blamed is None:
        return Looked(seen, (*notes, _NOT_SEEN_TO_END))
    note = (
        "no graph is found to be wrong alone; the program passes with compilation off and with every graph in eager, "
        f"and {blamed.why}"
    )
    return Looked(replace(seen, found=(_blamed(blamed.component, seen),)), (*notes, note))


def _why_rounding(again: Again, say: Say) -> str:
    """What shows that the program minds rounding, or nothing: nearly every graph rounds otherwise than eager."""
    say("compiled code rounds otherwise: once more, with every graph on aot_eager, which rounds as eager does")
    if again.passes_with_graphs_on("aot_eager") is False:
        return ""
    say("once more, with every result moved by a few units in the last place")
    if not again.passes_with_graphs_on("sleuth_nudged"):
        return _SENSITIVE
    say("that passes: once more, compiled and rounding each step as eager does")
    return "" if again.passes_rounding_alike() is False else _ROUNDING


@dataclass(frozen=True)
class Blamed:
    component: str
    why: str  # the end of a sentence about the program


_ENOUGH_SKETCHES = 8
_RUNGS = (("aot_eager", "aot", "AOTAutograd"), ("aot_eager_decomp_partition", "decomposition", "a decomposition"))


def below_dynamo(again: Again, process: Process, say: Say) -> Blamed | None:
    """The program itself on what stands between Dynamo and its backend; None: it was not seen to end."""
    for backend, component, name in _RUNGS:
        say(f"once more, with every graph on {backend}")
        passes = again.passes_with_graphs_on(backend)
        if passes is None:
            return None
        if not passes:
            return Blamed(component, f"fails with every graph on {backend}: {name} is to blame")
    component = _backend_of(process)
    name = "Inductor" if component == "inductor" else "the backend"
    return Blamed(component, f"passes with every graph on {_RUNGS[-1][0]}: {name} is to blame")


def _wrong(seen: Summary) -> tuple[Found, ...]:
    found = [f for f in seen.found if f.failure.kind is Kind.ACCURACY]
    return (replace(found[0], ended_program=True), *found[1:]) if found else ()


def _backend_of(process: Process) -> str:
    """Inductor, or what the program uses in its place.  Torch compiles too, for loops outside of compiled code."""
    places = sorted((process.folder / "sketches").glob("*"))
    readable = itertools.islice(sketches.whole(places), _ENOUGH_SKETCHES)
    backends = [case.surroundings.backend for case in readable]
    if not places or any(b.registered and b.name == "inductor" for b in backends):
        return "inductor"
    return "backend" if backends else "unknown"


_ROUNDING = (
    "eager rounds each step to the dtype, compiled code only the last; where that decides, the program asks for more "
    "precision than its dtype has; torch._inductor.config.emulate_precision_casts = True rounds alike"
)
_SENSITIVE = (
    "the program is sensitive to rounding: in eager, with each result moved by a few units in the last place "
    '(backend="sleuth_nudged"), it was not seen to pass either'
)
_STRIDES = (
    "no number is wrong; the program passes with compilation off and with every graph in eager, and what differs is "
    "the order in memory (the strides) of a result"
)
EAGER_NOT_SEEN_TO_END = (
    "run once more with compilation off, the program was not seen to end: whether it fails then, too, is not known"
)
_NOT_SEEN_TO_END = "it passes with compilation off; run again with other backends, it was not seen to end"

_HIDDEN = "it passed while its graphs were compared with eager, and fails each time without: comparing hides it"
_CACHED = (
    "it passes without torch's caches of compiled graphs, which a fresh program uses too: a graph is taken from them "
    "where it does not fit"
)
_WITHOUT_CACHE = "\n".join(f"export {name}={value}" for name, value in NO_GRAPH_CACHE.items())
_PASSED = (
    "it passed while its graphs were compared with eager: it does not fail each time, or it compares random numbers, "
    "which compiled code draws in its own way unless torch._inductor.config.fallback_random = True"
)


def _graphs(count: int) -> str:
    return f"{count} compiled graph{'s were' if count != 1 else ' was'}"


def _blamed(component: str, seen: Summary) -> Found:
    told = seen.uncaught or "the program's results differ"
    failure = wrong_numbers("values", Phase.RUN_FORWARD, told, told.splitlines()[0])
    assert seen.reference is not None  # something was compiled, so somebody was watched
    return Found(failure, None, seen.reference, ended_program=True, component=component)
