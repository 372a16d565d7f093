"""How often the unchanged program fails, and how often a changed one has to pass before that says something."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torchsleuth.case.failure import Failure
from torchsleuth.investigate.rerun import Again, RerunOutcome
from torchsleuth.judge.match import Match

_MOST_UNCHANGED = 4  # reruns of a program that does not fail each time
_DOUBT = 0.05  # of taking luck for the effect of a change
_MOST_PASSES = 6


@dataclass(frozen=True)
class Repeats:
    """Runs of the unchanged program, the user's own among them; `odd` is a rerun that ended in some other way."""

    failed: int
    runs: int
    odd: RerunOutcome | None = None

    @property
    def always(self) -> bool:
        return self.failed == self.runs > 1

    @property
    def needed(self) -> int | None:
        """Passes of a changed program that tell it from the unchanged one; None: more than are worth their time."""
        if self.always:
            return 1
        if self.odd is not None or self.failed < 2:
            return None
        passes = math.ceil(math.log(_DOUBT) / math.log(1 - self.failed / self.runs))
        return passes if passes <= _MOST_PASSES else None

    @property
    def text(self) -> str:
        if self.odd is not None:
            return f"run again unchanged, the program {self.odd.evidence}, which is not how it ended before"
        return f"unchanged, the program failed in {self.failed} of {self.runs} runs"


def count_failures(again: Again, say: Callable[[str], None], failure: Failure | None = None) -> Repeats:
    """Once more where it fails again; a few times more where it does not."""
    failed = runs = 1
    for number in range(_MOST_UNCHANGED):
        say("running the program once more, unchanged")
        outcome = again.unchanged(failure, number=number)
        if outcome.match not in (Match.SAME, Match.PASSED):
            return Repeats(failed, runs, outcome)
        runs += 1
        failed += outcome.match is Match.SAME
        if failed == runs:
            break
    return Repeats(failed, runs)


def passes_each_time(run: Callable[[int], RerunOutcome], times: int) -> RerunOutcome:
    """The first outcome that did not pass, or the last; `run` is given the number of the attempt."""
    outcome = run(0)
    for attempt in range(1, times):
        if outcome.match is not Match.PASSED:
            break
        outcome = run(attempt)
    return outcome
