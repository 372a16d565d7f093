"""Outputs of CUDA graphs that a later run has overwritten.

torch says so itself, when somebody reads one: in the program's own code, or as an input of the next graph.  No graph
shows it alone, and comparing numbers does not either; one run of the program without CUDA graphs proves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchsleuth.case.failure import Failure, Kind, Phase, of_text
from torchsleuth.investigate.repeating import count_failures
from torchsleuth.investigate.rerun import Again
from torchsleuth.judge.match import Match
from torchsleuth.watch.found import Found, Summary

INSIDE = "CUDA graphs"
_SAID = "tensor output of CUDAGraphs that has been overwritten"
_WITHOUT = 'torch.compile(...)  # without CUDA graphs: no mode, or mode="max-autotune-no-cudagraphs"'
NOTE = (
    "each run of a CUDA graph uses the memory of the one before: clone() what is kept of its outputs outside of "
    "torch.compile, or call torch.compiler.cudagraph_mark_step_begin() before each step, so that torch knows where one "
    "begins"
)


def overwritten(summary: Summary) -> Failure | None:
    """What the program failed with, where it is this."""
    for found in summary.found:
        if _SAID in found.failure.text or _SAID in found.failure.summary:
            return found.failure
    if not summary.found and _SAID in summary.uncaught:
        return of_text(summary.uncaught, Kind.RUNTIME_ERROR, Phase.RUN_FORWARD)
    return None


def look(summary: Summary, failure: Failure, again: Again, say: Callable[[str], None]) -> Summary:
    """With what is to blame and what helps, where the program passes without CUDA graphs; else as it was."""
    say("an output of CUDA graphs was read after it was overwritten: once more, without CUDA graphs")
    if summary.reference is None or again.with_backend("inductor", failure).match is not Match.PASSED:
        return summary
    say("it passes so: once more, unchanged")
    if not count_failures(again, say, failure).always:
        return summary
    blamed = Found(
        failure, None, summary.reference, ended_program=True, component="inductor", workaround=_WITHOUT, inside=INSIDE
    )
    others = [f for f in summary.found if f.failure is not failure]
    return replace(summary, found=(blamed, *others))
