"""`torchsleuth run`, whole: watch, find, run once more where nothing says why it failed, and conclude."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from torchsleuth.case.failure import Kind
from torchsleuth.commands.conclusion import conclude
from torchsleuth.commands.interruption import Cause, Interruption
from torchsleuth.commands.output_folder import give_up, make_output_folder
from torchsleuth.commands.run import Run, Say, Seen, Settings
from torchsleuth.errors import CommandNotFound
from torchsleuth.investigate import cuda_graphs, sensitivity, wrong_numbers
from torchsleuth.investigate.investigation import Investigation, Means, Plan
from torchsleuth.investigate.own_faults import told_apart
from torchsleuth.investigate.rerun import Again
from torchsleuth.judge.engines import Engines
from torchsleuth.judge.match import Match
from torchsleuth.reduce.journal import Journal
from torchsleuth.watch import launcher
from torchsleuth.watch.found import Found, died, summarise
from torchsleuth.watch.hangs import Alone, HangWatch
from torchsleuth.watch.session import Options
from torchsleuth.watch.steps import Follower, component_of
from torchsleuth.write.progress import lines_of
from torchsleuth.write.result import Result

_LONG_RUN = 1800.0  # seconds; who has waited so long is not made to wait as long again without being asked
_TOO_LONG = (
    "the program ran for {:.0f} minutes, so it was not run again; torchsleuth run --numerics compares the numbers of a "
    "shorter run with eager at once"
)

_CUT_SHORT = "{} while the program was run again to see why it failed: that is not known"
_CANCEL_EVERY = 0.1  # seconds


def run(command: Sequence[str], settings: Settings, say: Say) -> tuple[Result, Path]:
    words = launcher.resolve(command)
    out = make_output_folder(settings.out, words, ["run", *command])
    with told_apart(out), Interruption() as interruption:
        given = Run.of(command, out, settings, say, interruption)
        seen, known = _watched(words, given)
        if settings.rerun and seen.ended.seconds < _LONG_RUN and not interruption.stopped.is_set():
            budget = interruption.begin(settings.budget)
            again = Again(words, out / "logs", seen.ended.seconds, budget, engines=settings.engines)
            again.compare_with(seen.summary)
            interruption.ends(again.end)
            seen = _looked_at(seen, given, again)
        else:
            again = None
        return conclude(replace(given, again=again, known=known), seen), out


def _watched(words: Sequence[str], given: Run) -> tuple[Seen, Journal]:
    """The program, run to its end."""
    settings, session = given.settings, given.session
    session.mkdir(parents=True)
    options = Options(keep_going=settings.keep_going, hang_after=settings.hang_after,
        dump_first=settings.capture == "3", numbers="backward" if settings.numbers else "", log=settings.log,
    )  # fmt: skip
    hang_judge = _HangJudge(given.out, settings.jobs, settings.engines)
    hangs = HangWatch(session, settings.hang_after, hang_judge.confirm, settings.engines.now)
    steps = Follower(session, lines_of(given.say))  # the terminal is the program's while it runs

    def tick() -> bool:
        steps.look()
        return hangs.tick()

    try:
        ended = settings.engines.watch(words, session, options, tick=tick)
    except CommandNotFound:
        give_up(given.out)
        raise
    given.interruption.begin(settings.budget)
    if ended.terminated:
        given.interruption.stop(Cause(ended.terminated))
    ended = replace(ended, why=hangs.why)
    given.faults.keep(None, "reading the log of steps", steps.look)
    hang_judge.end(lambda: hangs.judging)
    hangs.close()
    summary = summarise(session, ended.exit_code)
    if (ended.interrupted or ended.terminated) and not summary.found:
        summary = replace(summary, found=hangs.interrupted())
    if ended.stopped and not any(one.failure.kind is Kind.HANG for one in summary.found):
        summary = replace(summary, found=(*hangs.hanging, *summary.found))  # its interpreter was stuck: it said nothing
    last = steps.unfinished()
    notes = [f"the last step that began: {component_of(last)}: {last}"] if last else []
    if settings.rerun and ended.seconds >= _LONG_RUN and ended.exit_code:
        notes.append(_TOO_LONG.format(ended.seconds / 60))
    return Seen(summary, ended, tuple(notes)), hang_judge.known


def _looked_at(seen: Seen, given: Run, again: Again) -> Seen:
    """With what the program shows only when it is run once more."""
    stopped = given.interruption.stopped
    for look in (_at_cuda_graphs, _at_an_early_death, _at_no_graph, _at_a_singular_matrix, _at_numbers):
        if stopped.is_set():
            break
        seen = given.faults.keep(seen, "running the program once more", partial(look, seen, again, given))
    if given.interruption.begin(given.settings.budget).over() and not stopped.is_set():
        given.interruption.stop(Cause.BUDGET)  # what ran was ended by it, a moment before the supervisor looks
    if stopped.is_set() and not seen.summary.found:
        seen = replace(seen, notes=(*seen.notes, _CUT_SHORT.format(given.interruption.said)))
    return seen


def _at_cuda_graphs(seen: Seen, again: Again, given: Run) -> Seen:
    failure = cuda_graphs.overwritten(seen.summary)
    if failure is None:
        return seen
    proven = cuda_graphs.look(seen.summary, failure, again, given.say)
    return seen if proven is seen.summary else replace(seen, summary=proven, notes=(*seen.notes, cuda_graphs.NOTE))


def _at_an_early_death(seen: Seen, again: Again, given: Run) -> Seen:
    """By a signal of its own, watched, and before there was a graph: a stack that Dynamo's tracing overflows, say."""
    summary, ended = seen.summary, seen.ended
    watched = summary.processes > 0 and summary.graphs == 0 and not summary.found
    if not (watched and died(ended.exit_code)) or ended.interrupted or ended.stopped:
        return seen
    looked = wrong_numbers.died_before_graphs(summary, -ended.exit_code, again, given.say)
    return replace(seen, summary=looked.summary, notes=(*seen.notes, *looked.notes))


def _at_no_graph(seen: Seen, again: Again, given: Run) -> Seen:
    """The program failed, and no graph of it was captured: does it fail without the compiler?"""
    summary, ended = seen.summary, seen.ended
    if ended.exit_code <= 0 or ended.interrupted or ended.stopped:
        return seen
    if summary.found or summary.graphs or not summary.processes:
        return seen
    given.say("the program failed, and no graph of it was captured: once more, with compilation off")
    outcome = again.without_compiling()
    return replace(seen, in_eager=outcome.match, notes=(*seen.notes, wrong_numbers.not_passed_in_eager(outcome)))


def _at_a_singular_matrix(seen: Seen, again: Again, given: Run) -> Seen:
    """Whether a matrix can be factorised may hang on the last place of its elements."""
    found = seen.summary.found
    if not found or not sensitivity.may_come_from_rounding(found[0].failure):
        return seen
    given.say("a matrix is called singular where compiled code computed it: does rounding alone do that?")
    asked = sensitivity.ask(again, given.say, found[0].failure)
    if asked.match is not Match.SAME:
        return seen
    rest = replace(seen.summary, found=found[1:])
    return replace(seen, summary=rest, notes=(*seen.notes, asked.text), in_eager=Match.SAME)


def _at_numbers(seen: Seen, again: Again, given: Run) -> Seen:
    """The program says that it failed, and nothing that was seen says why."""
    summary, ended = seen.summary, seen.ended
    failed = (ended.exit_code > 0 or died(ended.exit_code)) and not (ended.interrupted or ended.stopped)
    if not failed or summary.found or not summary.graphs or given.settings.numbers:
        return seen
    if seen.in_eager is Match.SAME:
        return seen
    looked = wrong_numbers.look(summary, again, given.say)
    return replace(seen, summary=looked.summary, notes=(*seen.notes, *looked.notes), in_eager=looked.in_eager)


class _HangJudge:
    """Asked about a program that still runs; once that has ended, its answer is of no use."""

    def __init__(self, out: Path, jobs: int, engines: Engines) -> None:
        self._out = out
        self._jobs = jobs
        self._engines = engines
        self._over = threading.Event()
        self.known = Journal()  # its answers need not be found out again
        self._investigation: Investigation | None = None

    def confirm(self, suspect: Found) -> Alone:
        means = Means.of(suspect.process, os.environ, 0.0, self._jobs, self._engines)
        plan = Plan(stopped=self._over.is_set)
        with Investigation(means, self._out, lambda _: None, plan, self.known) as self._investigation:
            return self._investigation.alone(suspect)

    def end(self, judging: Callable[[], bool]) -> None:
        """Cancels until nobody judges any more: a judge may be opened after it was first asked to end."""
        self._over.set()
        while judging():
            with suppress(RuntimeError):  # it goes through its judges while its own thread opens or closes one
                if self._investigation is not None:
                    self._investigation.cancel()
            time.sleep(_CANCEL_EVERY)


__all__ = ["Settings", "run"]
