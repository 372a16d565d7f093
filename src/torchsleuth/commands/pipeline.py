"""`torchsleuth run`, whole: watch, find, investigate, write, and say how it ended."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth import __version__
from torchsleuth.case import files
from torchsleuth.case.failure import Kind
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import give_up, make_output_folder
from torchsleuth.errors import CommandNotFound
from torchsleuth.investigate import cuda_graphs, wrong_numbers
from torchsleuth.investigate.investigation import Investigation, Means, Plan, write_issue
from torchsleuth.locate import advised
from torchsleuth.locate.ladder import Component
from torchsleuth.reduce.journal import Journal
from torchsleuth.watch import launcher
from torchsleuth.watch.found import Found, Summary, died, summarise
from torchsleuth.watch.hangs import HangWatch
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.rerun import Again
from torchsleuth.watch.session import Options, processes
from torchsleuth.watch.steps import Follower, component_of
from torchsleuth.write.findings import Finding
from torchsleuth.write.page_run import run_page
from torchsleuth.write.result import Result, RunVerdict, to_json

Say = Callable[[str], None]
_MOST_FAILURES = 5
_LONG_RUN = 1800.0  # seconds; who has waited so long is not made to wait as long again without being asked
_TOO_LONG = (
    "the program ran for {:.0f} minutes, so it was not run again; torchsleuth run --numerics compares the numbers of a "
    "shorter run with eager at once"
)
_TOO_LARGE = (
    "{} graph{} too large to be compared with eager in the memory that is free; a smaller model or batch may be"
)


@dataclass(frozen=True)
class Settings:
    out: Path | None = None
    budget: float = 600.0
    jobs: int = 2
    minimize: bool = True
    keep_going: bool = False
    rerun: bool = True
    hang_after: float = 60.0
    capture: str = "auto"  # "1": only keep what fails; "2": as auto; "3": keep every graph before it runs
    numbers: bool = False  # compare every graph with eager at once
    journal: Path | None = None  # of the Case that was named, to go on from
    log: str = ""  # "steps" or "debug"
    locate: bool = False  # look inside the compiler even where nothing is reduced


def run(command: Sequence[str], settings: Settings, say: Say) -> tuple[Result, Path]:
    words = launcher.resolve(command)
    out = make_output_folder(settings.out, words)
    session = out / "logs" / "watch"
    session.mkdir(parents=True)
    dump_first = settings.capture == "3"
    options = Options(keep_going=settings.keep_going, hang_after=settings.hang_after, dump_first=dump_first,
        numbers="backward" if settings.numbers else "", log=settings.log,
    )  # fmt: skip
    hang_judge = _HangJudge(out, settings.jobs)
    hangs = HangWatch(session, settings.hang_after, hang_judge.confirm)
    steps = Follower(session, say)

    def tick() -> bool:
        steps.look()
        return hangs.tick()

    with Interruption() as interruption:
        try:
            ended = launcher.run(words, session, options, tick=tick)
        except CommandNotFound:
            give_up(out)
            raise
        ended = replace(ended, why=hangs.why)
        steps.look()
        hang_judge.end()
        hangs.close()
        summary = summarise(session, ended.exit_code)
        if ended.interrupted and not summary.found:
            summary = replace(summary, found=hangs.interrupted())
        again = Again(words, out / "logs", ended.seconds) if settings.rerun and ended.seconds < _LONG_RUN else None
        last = steps.unfinished()
        notes: tuple[str, ...] = (f"the last step that began: {component_of(last)}: {last}",) if last else ()
        if settings.rerun and again is None and ended.exit_code:
            notes = (
                *notes,
                _TOO_LONG.format(ended.seconds / 60),
            )
        if again is not None and (failure := cuda_graphs.overwritten(summary)) is not None:
            interruption.ends(again.end)
            proven = cuda_graphs.look(summary, failure, again, say)
            notes = notes if proven is summary else (*notes, cuda_graphs.NOTE)
            summary = proven
        if again is not None and _died_early(summary, ended):
            interruption.ends(again.end)
            looked = wrong_numbers.died_before_graphs(summary, -ended.exit_code, again, say)
            summary, notes = looked.summary, (*notes, *looked.notes)
        if again is not None and _unexplained(summary, ended, settings):
            interruption.ends(again.end)
            looked = wrong_numbers.look(summary, again, say)
            summary, notes = looked.summary, (*notes, *looked.notes)
        known = hang_judge.known
        return finish(summary, ended, tuple(command), out, settings, say, again, interruption, known, notes), out


def _unexplained(summary: Summary, ended: Ended, settings: Settings) -> bool:
    """The program says that it failed, and nothing that was seen says why."""
    failed = (ended.exit_code > 0 or died(ended.exit_code)) and not (ended.interrupted or ended.stopped)
    return failed and not summary.found and summary.graphs > 0 and not settings.numbers


def _died_early(summary: Summary, ended: Ended) -> bool:
    """By a signal of its own, watched, and before there was a graph: a stack that Dynamo's tracing overflows, say."""
    watched = summary.processes > 0 and summary.graphs == 0 and not summary.found
    return watched and died(ended.exit_code) and not (ended.interrupted or ended.stopped)


def finish(
    summary: Summary,
    ended: Ended,
    command: tuple[str, ...],
    out: Path,
    settings: Settings,
    say: Say,
    again: Again | None,
    interruption: Interruption,
    known: Journal | None = None,
    seen: tuple[str, ...] = (),
) -> Result:
    """From what was seen to what is said: investigated, judged, written."""
    session = out / "logs" / "watch"
    notes: list[str] = [*_notes(ended, summary, settings), *seen]
    findings: tuple[Finding, ...] = ()
    if summary.found:
        findings = _investigate(summary, ended, out, settings, say, notes, again, interruption, known)
    verdict = _verdict(summary, ended, findings)
    notes += _verdict_notes(verdict, summary, ended, findings)
    result = Result(
        __version__, _torch_version(findings, session), command, ended.exit_code, verdict,
        summary.processes, summary.graphs, summary.checked, tuple(notes), findings,
    )  # fmt: skip
    files.write_json(out / "result.json", to_json(result, out))
    if findings:
        write_issue(findings[0], out)
    files.write_text(out / "report.html", run_page(to_json(result, out), out))
    _tidy(session, out)
    return result


def _investigate(
    summary: Summary,
    ended: Ended,
    out: Path,
    settings: Settings,
    say: Say,
    notes: list[str],
    again: Again | None,
    interruption: Interruption,
    known: Journal | None,
) -> tuple[Finding, ...]:
    process = summary.found[0].process
    means = Means.of(process, os.environ, ended.seconds, settings.jobs)
    findings: list[Finding] = []
    stopped = interruption.stopped
    plan = Plan(
        settings.minimize, settings.budget, stopped.is_set, settings.locate, settings.capture == "1", settings.journal
    )
    with Investigation(means, out, say, plan, known) as investigation:
        interruption.ends(investigation.cancel)
        if again is not None:
            interruption.ends(again.end)
        chosen = summary.found[:_MOST_FAILURES]
        for number, found in enumerate(chosen, start=1):
            failure = found.failure
            what = failure.summary if failure.kind is Kind.ACCURACY else failure.fingerprint.line
            say(f"{failure.kind.value}: {what}")
            others = len(chosen) - number
            finding = investigation.look_into(found, f"f{number}", first=number == 1, others=others)
            if not (finding.reproduced or found.inside or again is None or stopped.is_set() or plan.keep_only):
                finding = _once_more(finding, found, investigation, again, say, notes, first=number == 1)
            if not (finding.reproduced or finding.eager_fails_too or stopped.is_set() or plan.keep_only):
                finding = investigation.from_source(finding, found, first=number == 1)
            if again is not None and not finding.reproduced and _died_only_when_compared(found, ended):
                finding = _as_the_program_fails(finding, summary, investigation, again, say, notes, first=number == 1)
            if again is not None and finding.workaround is None and not (finding.eager_fails_too or stopped.is_set()):
                finding = _as_advised(finding, again, say)
            findings.append(finding)
    if stopped.is_set():
        notes.append("stopped by Ctrl-C: not all that was found was looked into")
    if len(summary.found) > _MOST_FAILURES:
        notes.append(f"{len(summary.found) - _MOST_FAILURES} more failures were seen and not looked into")
    return tuple(findings)


def _as_advised(finding: Finding, again: Again, say: Say) -> Finding:
    """What the error itself advises is a workaround where the program was seen to run with it."""
    for name, value in advised.settings(f"{finding.failure.summary}\n{finding.failure.text}").items():
        say(f"the error advises {name} = {value}: once more, with that")
        if again.passes_with({name: value}):
            return replace(finding, workaround=f"import {name.partition('config.')[0]}config\n{name} = {value}")
    return finding


def _died_only_when_compared(found: Found, ended: Ended) -> bool:
    """Memory that is misused may give wrong numbers in one run and end the next."""
    return found.failure.kind is Kind.CRASH and ended.exit_code > 0 and not (ended.interrupted or ended.stopped)


def _as_the_program_fails(
    finding: Finding,
    summary: Summary,
    investigation: Investigation,
    again: Again,
    say: Say,
    notes: list[str],
    *,
    first: bool,
) -> Finding:
    """The death could not be had again; what the program itself says of its numbers may be."""
    if again.fails_in_eager():
        return finding
    looked = wrong_numbers.whose(replace(summary, found=()), again, say)
    notes += looked.notes
    if not looked.summary.found:
        return finding
    other = looked.summary.found[0]
    return investigation.from_source(investigation.look_into(other, finding.id, first=first), other, first=first)


def _once_more(
    finding: Finding,
    found: Found,
    investigation: Investigation,
    again: Again,
    say: Say,
    notes: list[str],
    *,
    first: bool,
) -> Finding:
    """What only the program itself can tell: does it fail in eager, is Dynamo to blame, what were the values?"""
    say("running the program once more, with compilation off")
    if again.fails_in_eager():
        notes.append("the program was run once more with compilation off, and failed all the same")
        return replace(
            finding, eager_fails_too=True, why_not="eager itself fails: the program fails with compilation off"
        )
    finding = replace(finding, eager_fails_too=False)  # of a Case that was kept badly, it may seem so
    if found.failure.kind is Kind.CRASH and found.case is not None:
        say("running the program once more, keeping the values of every graph before it runs")
        seen = again.crash_with_values()
        notes.append("the program was run once more, to keep the values of the graph that crashed")
        if seen is not None:
            finding = investigation.look_into(seen, finding.id, first=first)
    elif found.failure.kind is not Kind.DYNAMO_ERROR and not found.component:
        say("running the program once more, with every graph forced to eager")
        in_eager = again.fails_with_graphs_on("eager", found.failure)
        if in_eager:
            notes.append("the program fails in the same way with every graph run in eager: Dynamo is to blame")
            finding = replace(finding, component=Component.DYNAMO)
        elif in_eager is False and finding.component is Component.UNKNOWN:
            blamed = wrong_numbers.below_dynamo(again, found.process, say)
            if blamed is not None:
                notes.append(f"the program does not fail so with every graph in eager, and {blamed.why}")
                finding = replace(finding, component=Component(blamed.component))
    return finding


class _HangJudge:
    """Asked about a program that still runs; once that has ended, its answer is of no use."""

    def __init__(self, out: Path, jobs: int) -> None:
        self._out = out
        self._jobs = jobs
        self._over = threading.Event()
        self.known = Journal()  # its answers need not be found out again
        self._investigation: Investigation | None = None

    def confirm(self, suspect: Found) -> bool:
        means = Means.of(suspect.process, os.environ, 0.0, self._jobs)
        plan = Plan(stopped=self._over.is_set)
        with Investigation(means, self._out, lambda _: None, plan, self.known) as self._investigation:
            return self._investigation.hangs(suspect)

    def end(self) -> None:
        self._over.set()
        if self._investigation is not None:
            self._investigation.cancel()


def _notes(ended: Ended, summary: Summary, settings: Settings) -> list[str]:
    found = []
    if ended.stopped:
        found.append(f"the program was ended by torchsleuth: {ended.why}")
    if ended.interrupted:
        found.append("the program was interrupted (Ctrl-C)")
    if summary.trouble:
        found.append("torchsleuth had trouble of its own while watching; see logs/trouble.log, and please report it")
    if summary.too_large:
        found.append(_TOO_LARGE.format(summary.too_large, " was" if summary.too_large == 1 else "s were"))
    if any(f.swallowed for f in summary.found):
        found.append("torch._dynamo.config.suppress_errors hid a failure from the program")
    return found


def _verdict(summary: Summary, ended: Ended, findings: Sequence[Finding]) -> RunVerdict:
    if any(f.reproduced for f in findings):
        return RunVerdict.FAILURE
    if findings and all(f.eager_fails_too for f in findings):
        return RunVerdict.PROGRAM_ERROR if ended.exit_code else RunVerdict.OK
    if findings:
        return RunVerdict.NOT_REPRODUCED
    if ended.exit_code and summary.processes:
        return RunVerdict.PROGRAM_ERROR
    return RunVerdict.OK if summary.graphs else RunVerdict.NOT_WATCHED


def _verdict_notes(verdict: RunVerdict, summary: Summary, ended: Ended, findings: Sequence[Finding]) -> list[str]:
    if verdict is RunVerdict.NOT_WATCHED:
        return [_why_not_watched(summary)]
    if verdict is RunVerdict.OK:
        if summary.checked:
            return [f"no failure was seen; the numbers of {summary.checked} graphs were checked against eager"]
        return ["no failure was seen; the numbers were not checked against eager"]
    if verdict is RunVerdict.PROGRAM_ERROR:
        if findings:
            return [f"{f.id}: {f.why_not}" for f in findings]
        what = f" ({summary.uncaught.splitlines()[0]})" if summary.uncaught else ""
        return [f"the program ended with {ended.exit_code}{what}, and nothing that torch.compile did failed"]
    return [f"{f.id}: {f.why_not}" for f in findings if f.why_not]


def _why_not_watched(summary: Summary) -> str:
    if summary.processes == 0:
        switched_off = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1"
        if switched_off:
            return "nothing was watched: TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torchsleuth out of the program; unset it"
        return (
            "nothing was watched: no process of the program imported torch with torchsleuth installed beside it; "
            "install torchsleuth into the Python that the program runs"
        )
    return "nothing was watched: the program imported torch, but no torch.compile was reached"


def _torch_version(findings: Sequence[Finding], session: Path) -> str:
    for finding in findings:
        if finding.versions.get("torch"):
            return finding.versions["torch"]
    for process in processes(session):
        if process.hello.get("torch"):
            return str(process.hello["torch"])
    return "unknown"


def _tidy(session: Path, out: Path) -> None:
    """Keeps the log of our own troubles; the traffic between tool and program has served."""
    trouble = session / "trouble.log"
    if trouble.exists():
        shutil.move(str(trouble), str(out / "logs" / "trouble.log"))
    shutil.rmtree(session, ignore_errors=True)


__all__ = ["Settings", "run"]
