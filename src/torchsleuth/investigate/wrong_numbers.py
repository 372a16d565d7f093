"""A program that failed although nothing of the compiler's did: are its numbers wrong, and whose fault is that?

It is run once more with every compiled graph compared with eager at its first calls.  Where all are right, it is run
with compilation off (does it fail by itself?), unchanged (does it fail each time?), in eager with rounding errors put
in (is it ill-conditioned?), and on one backend after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from torchsleuth.case.failure import Kind, Phase, of_signal, wrong_numbers
from torchsleuth.investigate import sensitivity as sensitivities
from torchsleuth.investigate.blame import off, passes_enough, who_is_to_blame
from torchsleuth.investigate.repeating import Repeats, count_failures
from torchsleuth.investigate.rerun import NO_GRAPH_CACHE, Again, RerunOutcome
from torchsleuth.investigate.sensitivity import Sensitivity
from torchsleuth.judge.match import Match
from torchsleuth.watch.found import Found, Summary

Say = Callable[[str], None]


@dataclass(frozen=True)
class Looked:
    """in_eager: SAME where the program was seen to fail in the same way without the compiler."""

    summary: Summary
    notes: tuple[str, ...] = ()
    in_eager: Match = Match.UNKNOWN


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
    say("no compared graph is wrong: once more, with compilation off")
    in_eager = again.without_compiling()
    if in_eager.match is not Match.PASSED:  # what follows cannot tell a fault of the compiler's from the program's own
        return Looked(seen, (*notes, not_passed_in_eager(in_eager)), in_eager.match)
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
    in_eager = again.without_compiling()
    if in_eager.match is Match.SAME:
        return Looked(summary, ("it dies with compilation off, too",), in_eager.match)
    assert summary.reference is not None
    found = Found(of_signal(number, Phase.COMPILE_FORWARD), None, summary.reference, ended_program=True)
    repeats = count_failures(again, say) if in_eager.match is Match.PASSED else None
    if repeats is None:  # it died, and that may be proven from its own file yet; nobody is blamed
        return Looked(replace(summary, found=(found,)), (not_passed_in_eager(in_eager),))
    if not passes_enough(partial(off, again, None), repeats):
        return Looked(replace(summary, found=(found,)), (_not_known(repeats),))
    found = replace(found, component="dynamo")
    note = "the program passes with compilation off; it dies before Dynamo has handed on a graph: Dynamo is to blame"
    return Looked(replace(summary, found=(found,)), (note,))


def not_passed_in_eager(outcome: RerunOutcome) -> str:
    """What is noted of a rerun with compilation off that is not known to have passed."""
    if outcome.match is Match.SAME:
        return "it fails with compilation off, too"
    if outcome.match is Match.INVALID:
        return "compilation could not be switched off: the error comes from the compiler's own code"
    if outcome.end.status is None:
        return EAGER_NOT_SEEN_TO_END
    return (
        f"run once more with compilation off, the program {outcome.evidence}, and not in the way in which it failed "
        "before: whether eager has this failure is not known"
    )


def _hidden(seen: Summary, again: Again, say: Say, notes: tuple[str, ...]) -> Looked:
    """Of a program that passes whenever its graphs are compared: does comparing hide what is wrong?"""
    say("it passed: once more, comparing nothing and drawing random numbers as eager does")
    alone = again.uncompared()
    if alone.match is not Match.SAME:
        return Looked(seen, (*notes, _why_it_passed(alone, again, say)))
    # It passed with the same rounding when it was compared: that is not why it fails.
    looked = whose(replace(seen, excused=()), again, say, (*notes, _HIDDEN))
    if not looked.summary.found or looked.summary.found[0].component == "dynamo":
        return looked
    say("once more, without torch's caches of compiled graphs")
    if again.uncompared(cached=False).match is not Match.PASSED:
        return looked
    found = replace(looked.summary.found[0], workaround=_WITHOUT_CACHE)
    return Looked(replace(looked.summary, found=(found,)), (*looked.notes, _CACHED))


def _why_it_passed(alone: RerunOutcome, again: Again, say: Say) -> str:
    """It passes with eager's random numbers and empty caches: is one of the two the reason?"""
    if alone.match is not Match.PASSED:
        return f"{_PASSED}; run once more without comparing, it {alone.evidence}"
    repeats = count_failures(again, say)
    if not repeats.always:
        return f"{_PASSED}; {repeats.text}"
    say("it fails again: once more, with empty caches and its own random numbers")
    own = again.uncompared(draw_like_eager=False)
    if own.match is Match.SAME:
        return f"{_PASSED}; {repeats.text}, and {_RANDOM}"
    if own.match is Match.PASSED:
        return f"{_PASSED}; {repeats.text}, and {_WARM}"
    return f"{_PASSED}; {repeats.text}; why it passes then is not known"


def whose(seen: Summary, again: Again, say: Say, notes: tuple[str, ...] = ()) -> Looked:
    """Of a program that passes with compilation off, and of which no graph is wrong alone."""
    repeats = count_failures(again, say)
    if repeats.needed is None:
        return Looked(seen, (*notes, _not_known(repeats)))
    sensitivity = sensitivities.ask(again, say)
    if sensitivity.match is Match.SAME and not _is_dynamos(sensitivity, again, say):
        return Looked(seen, (*notes, *_excuses(seen), sensitivity.text), Match.SAME)
    if sensitivity.match is Match.UNKNOWN:
        return Looked(seen, (*notes, *_excuses(seen), _ROUNDING_NOT_KNOWN))
    if seen.excused:
        rounding = _rounds_otherwise(again, say)
        if rounding:
            return Looked(seen, (*notes, *_excuses(seen), rounding))
    assert seen.reference is not None
    blamed = who_is_to_blame(again, seen.reference, say, repeats)
    if blamed is None:
        return Looked(seen, (*notes, _NOT_KNOWN))
    note = f"{_none_wrong(seen)}; the program passes with compilation off, and {blamed.why}"
    return Looked(replace(seen, found=(_blamed(blamed.component, seen),)), (*notes, note))


def _is_dynamos(sensitivity: Sensitivity, again: Again, say: Say) -> bool:
    """Dynamo's graphs in eager run eager's own kernels.

    A program that compares to the last bit fails under any nudge; that it also fails with those graphs is not rounding,
    unless it makes much of a little.
    """
    if sensitivity.amplified:
        return False
    say("once more, with every graph in eager")
    return again.with_backend("eager").match is Match.SAME


def _excuses(seen: Summary) -> list[str]:
    return [f"compiled differs from eager, and is not wrong: {line}" for line in seen.excused[:3]]


def _rounds_otherwise(again: Again, say: Say) -> str:
    """Of a program of which graphs round otherwise than eager: what shows that this is why it fails, or nothing."""
    say("once more, with every graph on aot_eager, which rounds as eager does")
    if again.with_backend("aot_eager").match is not Match.PASSED:
        return ""
    say("that passes: once more, compiled and rounding each step as eager does")
    rounded = again.emulating_casts().match
    return {Match.PASSED: _ROUNDING, Match.UNKNOWN: _ROUNDING_NOT_KNOWN}.get(rounded, "")


def _not_known(repeats: Repeats) -> str:
    return f"{repeats.text}: which part of the compiler is to blame is not known"


def _wrong(seen: Summary) -> tuple[Found, ...]:
    found = [f for f in seen.found if f.failure.kind is Kind.ACCURACY]
    return (replace(found[0], ended_program=True), *found[1:]) if found else ()


_ROUNDING = (
    "eager rounds each step to the dtype, compiled code only the last; where that decides, the program asks for more "
    "precision than its dtype has; torch._inductor.config.emulate_precision_casts = True rounds alike"
)
_ROUNDING_NOT_KNOWN = (
    "compiled code rounds otherwise than eager; run again with other rounding, the program was not seen to end: "
    "whether it is sensitive to rounding, and which part of the compiler is to blame, is not known"
)
_STRIDES = (
    "no number is wrong; the program passes with compilation off and with every graph in eager, and what differs is "
    "the order in memory (the strides) of a result"
)
EAGER_NOT_SEEN_TO_END = (
    "run once more with compilation off, the program was not seen to end: whether it fails then, too, is not known"
)
_NOT_KNOWN = (
    "it passes with compilation off; run again with other backends, it ended in other ways, or passed too seldom to "
    "tell, or was not seen to end: which part of the compiler is to blame is not known"
)

_HIDDEN = (
    "it passed while its graphs were compared with eager, and fails in the same way where none is: comparing hides it"
)
_CACHED = (
    "it passes without torch's caches of compiled graphs, which a fresh program uses too: a graph is taken from them "
    "where it does not fit"
)
_WITHOUT_CACHE = "\n".join(f"export {name}={value}" for name, value in NO_GRAPH_CACHE.items())
_PASSED = "it passed while its graphs were compared with eager"
_RANDOM = (
    "passes only where random numbers are drawn as eager draws them: it compares random numbers, which compiled code "
    "draws in its own way unless torch._inductor.config.fallback_random = True"
)
_WARM = "passes with empty caches of compiled graphs: it fails with what is in torch's caches"


def _none_wrong(seen: Summary) -> str:
    if not seen.checked:
        return "no graph was compared with eager"
    return (
        f"none of the {seen.checked} graphs that were compared with eager is wrong alone"
        if seen.checked > 1
        else ("the one graph that was compared with eager is not wrong alone")
    )


def _graphs(count: int) -> str:
    return f"{count} compiled graph{'s were' if count != 1 else ' was'}"


def _blamed(component: str, seen: Summary) -> Found:
    told = seen.uncaught or "the program's results differ"
    failure = wrong_numbers("values", Phase.RUN_FORWARD, told, told.splitlines()[0])
    assert seen.reference is not None  # something was compiled, so somebody was watched
    return Found(failure, None, seen.reference, ended_program=True, component=component)
