"""`torchsleuth minimize WHAT --check CMD`: reduced for whatever a command of the user's looks for.

The graphs come from a Case, or from running a script under the watcher; the command says of each candidate, written as
a script, whether it still fails.  What it says depends on files that are not part of the candidate, so it is remembered
for this run only.  A run that was cut short goes on from the smallest Case, which is judged again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth import __version__
from torchsleuth.case import files, folder
from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import Form
from torchsleuth.commands import going_on, kept, scripts
from torchsleuth.commands.checked_repro import Placing
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.commands.run import Settings
from torchsleuth.errors import DamagedCase
from torchsleuth.investigate import minimise as reducing
from torchsleuth.investigate.own_faults import told_apart
from torchsleuth.judge.base import Judge
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.by_command import failure_of
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.judgement import Engine, JudgementLog
from torchsleuth.judge.match import Target
from torchsleuth.judge.outcome import Verdict
from torchsleuth.reduce.journal import NAME, Journal
from torchsleuth.reduce.reducer import Hints, counted
from torchsleuth.watch.found import summarise
from torchsleuth.watch.session import Options, processes
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import Result, RunVerdict, to_json

Say = Callable[[str], None]
_MOST_GRAPHS = 20
_DEADLINE = 300.0  # seconds for one run of the check
_OF_THE_EARLIER_RUN = (NAME, "checkpoints", "smallest", "repro.py", "repro_data*")


@dataclass(frozen=True)
class Start:
    """A graph of which the check says that it fails, in one form."""

    case: Case
    whole: Case  # the graph that it was made of
    way: Way


def minimise(what: Path, check: str, settings: Settings, say: Say, *, trust: bool) -> tuple[Result, Path]:
    judge = settings.engines.open_check(check, settings.jobs)
    if what.is_dir():
        kept.load(what, trust=trust)  # complains before anything is made
    else:
        scripts.command_of(what)
    command = ("minimize", str(what), "--check", check)
    out = make_output_folder(settings.out, ["minimize", f"{what.stem}.py"], command)
    scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-check-"))
    try:
        with told_apart(out), Interruption() as interruption:
            interruption.ends(judge.cancel)
            result = _Checked(what, check, settings, say, out, scratch, interruption).reduce(judge)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    files.write_json(out / "result.json", to_json(result, out))
    if not interruption.stopped.is_set():
        going_on.end(out, [f.repro.path for f in result.findings if f.repro is not None])
    return result, out


@dataclass(frozen=True)
class _Checked:
    what: Path
    check: str
    settings: Settings
    say: Say
    out: Path
    scratch: Path
    interruption: Interruption

    def stopped(self) -> bool:
        return self.interruption.stopped.is_set()

    @property
    def home(self) -> Path:
        return self.out / "cases" / "f1"

    def reduce(self, judge: Judge) -> Result:
        began = time.monotonic()
        self.home.mkdir(parents=True, exist_ok=True)
        journal = self._journal()
        bench = Bench(
            judge,
            self.scratch / "bench",
            python=sys.executable,
            environment=judge_environment(os.environ),
            deadline=_DEADLINE,
            memory=journal,
            target=Target(failure_of(self.check)),
            log=JudgementLog(self.out),
            engines=self.settings.engines,
        )
        bench.engine = Engine.COMMAND
        start = self._choose(bench, journal)
        until = self.interruption.begin(self.settings.budget).until
        finding = Finding("f1", failure_of(self.check))
        if start is None:
            why = self._why_none()
            finding = replace(finding, why_not=why, seconds=time.monotonic() - began)
            return self._result(RunVerdict.NOT_REPRODUCED, (f"f1: {why}",), finding)
        start = self._kept(start)
        whole, case = start.whole, start.case
        self.say(f"the check finds it in a graph of {counted(case)}")
        placing = Placing(bench, journal, self.out, self.home, self.check, self.say)
        placing.better(case, start.way)
        before = bench.judged
        means = reducing.Means(
            bench, self.home, sys.executable, judge_environment(os.environ), (), self.settings.jobs, until,
            self.stopped, self.say, better=placing.better,
        )  # fmt: skip
        found = reducing.reduce_case(case, failure_of(self.check), start.way.form, start.way.data, Hints(), means)
        folder.save(found.case, self.home / "smallest")
        asked_again = not self.stopped() and time.monotonic() < until
        repro = placing.written(found.case, found.way, asked_again=asked_again)
        finding = replace(
            finding, case=self.home, repro=repro, claims=repro.claims, versions=whole.versions,
            ops_before=operators(whole.graph),
            judged=before + found.judged, judged_to_smallest=before + found.judged_to_smallest,
            seconds=time.monotonic() - began,
            why_not="" if repro.verified else repro.reason,
        )  # fmt: skip
        verdict = RunVerdict.FAILURE if repro.verified else RunVerdict.NOT_REPRODUCED
        notes = [f"{self.interruption.said}: this is the smallest so far"] if self.stopped() else []
        return self._result(verdict, (*notes, *([f"f1: {repro.reason}"] if repro.reason else [])), finding)

    def _journal(self) -> Journal:
        """No later run believes its judgements: each run has a setting of its own."""
        places = [self.home / NAME, *([kept.case_folder(self.what) / NAME] if self.what.is_dir() else [])]
        looks_for = f"check {self.check}"
        return Journal(*places, setting=f"{looks_for} {uuid.uuid4().hex}", say=self.say, looks_for=looks_for)

    def _why_none(self) -> str:
        if self.stopped():
            return f"{self.interruption.said} before the check had found anything"
        return f"the check finds nothing wrong with any graph of {self.what.name}, run alone (status 0 or 125 for each)"

    def _result(self, verdict: RunVerdict, notes: Sequence[str], finding: Finding) -> Result:
        command = ("minimize", str(self.what), "--check", self.check)
        torch = finding.versions.get("torch", "unknown")
        return Result(__version__, torch, command, 0, verdict, 0, 1, 0, tuple(notes), (finding,))

    def _choose(self, bench: Bench, journal: Journal) -> Start | None:
        for case, whole, home in self._candidates(journal):
            valued = any(storage.kept for storage in case.storages)
            for form in (Form.COMPILE, Form.BACKEND):
                for data in (False, True) if valued else (False,):
                    if self.stopped():
                        return None
                    tried = bench.try_case(case, home, form, data=data)
                    if tried.outcome.verdict is Verdict.FAILED:
                        return Start(case, whole, Way(form, data, home))
                    reason = tried.outcome.reason or "the failure is gone"
                    self.say(f"{counted(case)} as {form.value}: {reason}")
        return None

    def _candidates(self, journal: Journal) -> Iterator[tuple[Case, Case, Path]]:
        """A Case, the whole that it was made of, and where its values stand; what an earlier run came to first."""
        earlier = self._earlier()
        noted = journal.smallest(ours=not self.what.is_dir())
        if earlier is not None and noted is not None:
            self.say(f"going on from {counted(noted)}, judged again")
            yield _without_check(noted), *earlier
        if earlier is not None:
            yield _without_check(earlier[0]), *earlier
        for case, home in self._graphs():
            yield _without_check(case), case, home

    def _earlier(self) -> tuple[Case, Path] | None:
        """The whole that an earlier run chose, and where it stands."""
        if (self.home / folder.META).exists():
            try:
                return folder.load(self.home, ours=not self.what.is_dir()), self.home
            except DamagedCase:  # it was killed while it copied it
                return None
        return (kept.load(self.what, trust=True), kept.case_folder(self.what)) if self.what.is_dir() else None

    def _graphs(self) -> Iterator[tuple[Case, Path]]:
        if self.what.is_dir():
            yield kept.load(self.what, trust=True), kept.case_folder(self.what)
            return
        session = self.scratch / "watch"
        session.mkdir()
        self.settings.engines.watch(scripts.command_of(self.what), session, Options(hang_after=0, dump_first=True))
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

    def _kept(self, start: Start) -> Start:
        """The whole in the output folder, with what it needs: whoever goes on finds it there."""
        if start.way.home != self.home:
            ignored = shutil.ignore_patterns(*_OF_THE_EARLIER_RUN)
            shutil.copytree(start.way.home, self.home, dirs_exist_ok=True, ignore=ignored)
        folder.save(start.whole, self.home)
        return replace(start, way=replace(start.way, home=self.home))


def _without_check(case: Case) -> Case:
    """The command compares, and not the script."""
    return replace(case, check=None)


def _phases(case: Case, failed: bool) -> list[Phase]:
    """As far as the program went where that is known; else the forward, then the backward where there is one."""
    if failed:
        return [case.phase]
    gradients = case.surroundings.grad and any(isinstance(v, Tensor) and v.requires_grad for v in case.inputs)
    return [Phase.RUN_FORWARD, *([Phase.RUN_BACKWARD] if gradients else [])]


def _number(place: Path) -> int:
    return int(place.name) if place.name.isdigit() else 0
