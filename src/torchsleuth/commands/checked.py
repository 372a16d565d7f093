"""`torchsleuth minimize WHAT --check CMD`: reduced for whatever a command of the user's looks for.

The graphs come from a Case, or from running a script under the watcher; the command says of each candidate, written as
a script, whether it still fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth import __version__
from torchsleuth.case import files, folder
from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import Form, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.commands import kept, scripts
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.commands.run import Settings
from torchsleuth.errors import DamagedCase
from torchsleuth.investigate import minimise as reducing
from torchsleuth.investigate.own_faults import told_apart
from torchsleuth.judge.base import Judge
from torchsleuth.judge.bench import Bench, Tried
from torchsleuth.judge.by_command import failure_of
from torchsleuth.judge.engines import Engines
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.outcome import Verdict
from torchsleuth.reduce.journal import NAME, Journal
from torchsleuth.reduce.reducer import Hints, counted
from torchsleuth.watch.found import summarise
from torchsleuth.watch.session import Options, processes
from torchsleuth.write.findings import Finding, Repro
from torchsleuth.write.result import Result, RunVerdict, to_json

Say = Callable[[str], None]
_MOST_GRAPHS = 20
_DEADLINE = 300.0  # seconds for one run of the check
_RUNS = (0, 1, 2)


@dataclass(frozen=True)
class Chosen:
    """A graph of which the check says that it fails, in one form."""

    case: Case
    home: Path
    tried: Tried


def minimise(what: Path, check: str, settings: Settings, say: Say, *, trust: bool) -> tuple[Result, Path]:
    judge = settings.engines.open_check(check, settings.jobs)
    if what.is_dir():
        kept.load(what, trust=trust)  # complains before anything is made
    else:
        scripts.command_of(what)
    out = make_output_folder(settings.out, ["minimize", f"{what.stem}.py"])
    scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-check-"))
    try:
        with told_apart(out), Interruption() as interruption:
            interruption.ends(judge.cancel)
            result = _reduce(what, check, settings, say, judge, out, scratch, interruption.stopped.is_set)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    files.write_json(out / "result.json", to_json(result, out))
    return result, out


def _reduce(
    what: Path,
    check: str,
    settings: Settings,
    say: Say,
    judge: Judge,
    out: Path,
    scratch: Path,
    stopped: Callable[[], bool],
) -> Result:
    began = time.monotonic()
    home = out / "cases" / "f1"
    home.mkdir(parents=True)
    journals = [home / NAME, *([kept.case_folder(what) / NAME] if what.is_dir() else [])]
    bench = Bench(
        judge, scratch / "bench", python=sys.executable, environment=judge_environment(os.environ),
        deadline=_DEADLINE, memory=Journal(*journals, setting=f"check {check}", say=say), engines=settings.engines,
    )  # fmt: skip
    chosen = _choose(what, bench, say, scratch)
    finding = Finding("f1", failure_of(check))
    if chosen is None:
        why = f"the check finds nothing wrong with any graph of {what.name}, run alone (status 0 or 125 for each)"
        finding = replace(finding, why_not=why, seconds=time.monotonic() - began)
        return _result(what, check, RunVerdict.NOT_REPRODUCED, (f"f1: {why}",), finding)
    shutil.copytree(chosen.home, home, dirs_exist_ok=True)
    case, form, data = chosen.case, chosen.tried.form, chosen.tried.with_data
    say(f"the check finds it in a graph of {counted(case)}")
    before = bench.judged
    means = reducing.Means(
        bench, chosen.home, sys.executable, judge_environment(os.environ), (), settings.jobs,
        began + settings.budget, stopped, say,
    )  # fmt: skip
    found = reducing.reduce_case(case, failure_of(check), form, data, Hints(), means)
    folder.save(found.case, home / "smallest")
    chosen = replace(chosen, tried=replace(chosen.tried, form=found.way.form, with_data=found.way.data))
    repro = _written(found.case, chosen, bench, check, out)
    finding = replace(
        finding, case=home, repro=repro, versions=case.versions, ops_before=operators(case.graph),
        judged=before + found.judged, judged_to_smallest=before + found.judged_to_smallest,
        seconds=time.monotonic() - began,
        why_not="" if repro.verified else repro.reason,
    )  # fmt: skip
    verdict = RunVerdict.FAILURE if repro.verified else RunVerdict.NOT_REPRODUCED
    notes = ["stopped by Ctrl-C: this is the smallest so far"] if stopped() else []
    return _result(what, check, verdict, (*notes, *([f"f1: {repro.reason}"] if repro.reason else [])), finding)


def _result(what: Path, check: str, verdict: RunVerdict, notes: tuple[str, ...], finding: Finding) -> Result:
    command = ("minimize", str(what), "--check", check)
    return Result(
        __version__, finding.versions.get("torch", "unknown"), command, 0, verdict, 0, 1, 0, notes, (finding,)
    )


def _choose(what: Path, bench: Bench, say: Say, scratch: Path) -> Chosen | None:
    for case, home in _graphs(what, scratch, bench.engines):
        valued = any(storage.kept for storage in case.storages)
        for form in (Form.COMPILE, Form.BACKEND):
            for data in (False, True) if valued else (False,):
                tried = bench.try_case(case, home, form, data=data)
                if tried.outcome.verdict is Verdict.FAILED:
                    return Chosen(case, home, tried)
                say(f"{counted(case)} as {form.value}: {tried.outcome.reason or 'the failure is gone'}")
    return None


def _graphs(what: Path, scratch: Path, engines: Engines) -> Iterator[tuple[Case, Path]]:
    if what.is_dir():
        home, case = kept.case_folder(what), kept.load(what, trust=True)
        yield case, home
        return
    session = scratch / "watch"
    session.mkdir()
    engines.watch(scripts.command_of(what), session, Options(hang_after=0, dump_first=True))
    failed = [one.case for one in summarise(session, None).found if one.case is not None]
    sketches = [
        place
        for process in processes(session)
        for place in sorted((process.folder / "sketches").glob("*"), key=_number)
    ]
    for home in [*failed, *sketches][:_MOST_GRAPHS]:
        try:
            case = folder.load(home, ours=True)
        except DamagedCase:
            continue
        yield from ((replace(case, phase=phase), home) for phase in _phases(case, home in failed))


def _phases(case: Case, failed: bool) -> list[Phase]:
    """As far as the program went where that is known; else the forward, then the backward where there is one."""
    if failed:
        return [case.phase]
    gradients = case.surroundings.grad and any(isinstance(v, Tensor) and v.requires_grad for v in case.inputs)
    return [Phase.RUN_FORWARD, *([Phase.RUN_BACKWARD] if gradients else [])]


def _number(place: Path) -> int:
    return int(place.name) if place.name.isdigit() else 0


def _written(case: Case, chosen: Chosen, bench: Bench, check: str, out: Path) -> Repro:
    """repro.py, and what the check says of it, asked several times."""
    form, data = chosen.tried.form, chosen.tried.with_data
    rendering = render(case, form, data=data)
    tried = bench.try_again(case, chosen.home, form, _RUNS, data=data)
    failed = sum(one.outcome.verdict is Verdict.FAILED for one in tried)
    said = check.replace("\\", "/").replace('"""', "'''")
    text = f'"""Reduced for what this command looks for:\n\n    {said}\n"""\n{rendering.source}'
    files.write_text(out / "repro.py", text)
    size = 0
    if rendering.data:
        with files.replacing(out / DATA_FILE) as temporary:
            bench.write_data(rendering, chosen.home, temporary)
        size = (out / DATA_FILE).stat().st_size
    reason = "" if failed == len(tried) else f"the check said so in {failed} of {len(tried)} runs"
    return Repro(
        out / "repro.py", text, form.value, operators(case.graph), rendering.imports, size, failed == len(tried),
        len(tried), failed, reason,
    )  # fmt: skip
