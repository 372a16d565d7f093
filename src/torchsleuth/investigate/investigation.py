"""From what was kept in the program to a verified repro: judge, choose a form, reduce, verify, climb the ladder."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from torchsleuth.case import files, folder
from torchsleuth.case.failure import Failure, Kind, Phase
from torchsleuth.case.ir import Graph, operators
from torchsleuth.case.model import Case, Check, Tensor
from torchsleuth.errors import JudgeBroken, SleuthError
from torchsleuth.investigate import from_source, minimise, sketches, starts
from torchsleuth.investigate.afterwards import Afterwards, Known
from torchsleuth.investigate.asking import Asker
from torchsleuth.investigate.blaming import blame_operator
from torchsleuth.investigate.climbing import climb_ladder
from torchsleuth.investigate.placing import STOPPED, Means, Placing, Plan, alone_as_long, lines_of, not_kept
from torchsleuth.investigate.reduction import Reduction, measured
from torchsleuth.investigate.rerun import Again
from torchsleuth.investigate.starts import NoStart, Start, Subject
from torchsleuth.judge.base import Judge
from torchsleuth.judge.bench import Bench
from torchsleuth.judge.environment import with_own_pool
from torchsleuth.judge.judgement import JudgementLog
from torchsleuth.judge.match import Target
from torchsleuth.judge.probed import ever_warmed
from torchsleuth.judge.setting import setting, versions_of
from torchsleuth.locate import named
from torchsleuth.locate.ladder import Component
from torchsleuth.reduce import journal
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.reducer import counted
from torchsleuth.reduce.source.bench import ScriptBench
from torchsleuth.reduce.source.whole import folders_of
from torchsleuth.referee import told
from torchsleuth.watch.found import Found
from torchsleuth.watch.hangs import Alone
from torchsleuth.write import issue
from torchsleuth.write.findings import Culprit, Finding, Repro

Say = Callable[[str], None]
_FIRST_JUDGE = "starting a judge; the first on this machine asks what the processor can do, up to a minute"
_FRESH = 8.0  # seconds that a fresh process needs before it compiles, about


class Investigation:
    """Judges are warm processes: one a set of devices, opened when first needed, closed at the end."""

    def __init__(
        self, means: Means, out: Path, say: Say, plan: Plan | None = None, known: Journal | None = None
    ) -> None:
        self.means = means
        self.known = known or Journal()  # what was judged before there was a folder for it
        self._plan = plan or Plan()
        self._out = out
        self._say = say
        self._scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-"))
        self.log = JudgementLog(out)
        self._placing = Placing(means, self._plan, out, self._scratch, say, self.log)
        self._judges: dict[str, Judge] = {}
        self._until = time.monotonic() + self._plan.budget
        self._journal = self.known
        self._setting = ""
        self._counting: Again | None = None

    def __enter__(self) -> Investigation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for judge in self._judges.values():
            judge.cancel()
            judge.close()
        self._judges.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def cancel(self) -> None:
        if self._counting is not None:
            self._counting.end()
        for judge in self._judges.values():
            judge.cancel()

    def _judge_for(self, devices: frozenset[str], environment: Mapping[str, str] | None = None) -> Judge:
        key = "cpu" if devices <= {"cpu", "meta"} else ",".join(sorted(devices))
        key += ", in an environment of its own" if environment is not None else ""
        if key not in self._judges:
            self._say("starting a judge" if "cuda" in key or ever_warmed() else _FIRST_JUDGE)
            place = self._scratch / f"judge-{len(self._judges)}"
            place.mkdir()
            self._judges[key] = self.means.engines.open_judge(
                devices, python=self.means.python, environment=environment or self.means.environment, scratch=place,
                path=self.means.path, jobs=self.means.jobs,
            )  # fmt: skip
        return self._judges[key]

    def _bench(self, case: Case, deadline: float | Callable[[Case], float], failure: Failure) -> Bench:
        judge = self._judge_for(case.devices)
        place = Path(tempfile.mkdtemp(prefix="bench-", dir=self._scratch))  # each numbers its trials from 1
        return Bench(
            judge, place, python=self.means.python, environment=self.means.environment, deadline=deadline,
            path=self.means.path, memory=self._journal, target=Target(failure), log=self.log,
            engines=self.means.engines,
        )  # fmt: skip

    def alone(self, found: Found) -> Alone:
        """Whether a stage that lasts too long in the program comes to its end when it is run alone."""
        if found.case is None:
            return Alone.UNKNOWN
        case = replace(folder.load(found.case, ours=True), phase=found.failure.phase)
        bench = self._bench(case, alone_as_long(case, found.seconds), found.failure)
        subject = Subject(case, None, found.case, found.failure, bench)
        if isinstance(starts.of_whole(subject, self._plan.stopped, self._say), Start):
            return Alone.HANGS
        ends = not self._plan.stopped() and starts.passes(subject)
        return Alone.ENDS if ends else Alone.UNKNOWN

    # --- one failure ----------------------------------------------------------------------------------------------

    def look_into(self, found: Found, name: str, *, first: bool, others: int = 0) -> Finding:
        """`others` failures wait for their share of the budget."""
        began = time.monotonic()
        self._share_ends = began + max(0.0, self._until - began) / (1 + others)
        home = self._out / "cases" / name
        finding = Finding(name, found.failure, swallowed=found.swallowed)
        if found.case is None:
            return replace(
                finding,
                component=Component(found.component) if found.component else _without_graph(found.failure),
                culprit=Culprit(
                    compiler_pass=found.inside or None,
                    source=named.line_named(found.failure) or named.function_at(found.place),
                ),
                why_not=_why_no_graph(found),
                seconds=time.monotonic() - began,
                workaround=found.workaround or None,
            )
        _move(found.case, home)
        try:
            check = _compared(found.failure)
            case = replace(folder.load(home, ours=True), failure=found.failure, phase=found.failure.phase, check=check)
            if case.by_nans:
                made = (v.of_nans() if isinstance(v, Tensor) else v for v in case.inputs)
                case = replace(case, inputs=tuple(made))
            inner = _load_inner(home, check, found.failure.phase)
        except SleuthError as error:
            return replace(finding, case=home, why_not=str(error))
        folder.save(case, home)
        self._open_journal(home)
        finding = replace(
            finding,
            case=home,
            versions=case.versions,
            ops_before=operators(case.graph),
            unknown=case.surroundings.unknown,
            not_known=tuple(not_kept(case)),
            judged_with=self._versions(),
            culprit=Culprit(source=named.line_named(found.failure)),
        )
        if self._plan.keep_only:
            return replace(finding, why_not="it was kept and not judged, as --capture 1 asks")
        try:
            deadline = self._deadlines(case, found) if found.failure.kind is Kind.HANG else self.means.deadline
            subject = Subject(case, inner, home, found.failure, self._bench(case, deadline, found.failure), first)
            finding = self._reproduce(finding, subject)
        except JudgeBroken as error:  # by Ctrl-C, too, while it starts
            finding = replace(finding, why_not=STOPPED if self._plan.stopped() else str(error))
        return finding if finding.seconds else replace(finding, seconds=time.monotonic() - began)

    def _deadlines(self, whole: Case, found: Found) -> Callable[[Case], float]:
        """The whole is given as long as it may honestly take; of a smaller one that hangs, too, less is enough."""
        size, as_long = operators(whole.graph), alone_as_long(whole, found.seconds)
        return lambda case: as_long if operators(case.graph) == size else self._placing.hang_limit(case)

    def _open_journal(self, home: Path) -> None:
        self._setting = self._setting or setting(self.means.python, self.means.environment, self.means.engines.versions)
        places = [home / journal.NAME, *([self._plan.journal] if self._plan.journal else [])]
        self._journal = Journal(*places, setting=self._setting, say=self._say)
        if self._journal.begun_with:
            self._say(f"going on from a journal of {self._journal.begun_with} judgements")
        self._journal.learn(self.known)

    def _reproduce(self, finding: Finding, subject: Subject) -> Finding:
        if not self._plan.minimize:
            start, finding = self._start(finding, subject)
            if start is None:
                return finding
            began = time.monotonic()
            finding = self._of_the_whole(finding, subject, start)
            cost = time.monotonic() - began
            return self._learn(finding, subject, start, None, cost)
        finding, start, known = self._reduced(finding, subject)
        cost = _FRESH + (start.best.outcome.seconds if start is not None else 0.0)
        try:
            if start is None and finding.reproduced and self._time_left(2 * cost):
                finding, start, cost = self._whole_at_last(finding, subject, cost)
            return self._learn(finding, subject, start, known, cost)
        except JudgeBroken as error:  # what is verified stays so
            self._say(f"no more is found out: {error}")
            return finding

    def _whole_at_last(self, finding: Finding, subject: Subject, cost: float) -> tuple[Finding, Start | None, float]:
        """Judged only to see what helps the user's own Case."""
        self._say(f"judging the whole: {counted(subject.case)}")
        began = time.monotonic()
        judged = self._whole(subject, lambda: not self._time_left(cost))
        if isinstance(judged, Start):
            return finding, judged, max(cost, time.monotonic() - began)
        if self._time_left(cost):  # else it was not tried in all forms
            finding = replace(finding, not_known=(*finding.not_known, _NOT_THE_WHOLE))
        return finding, None, cost

    def _reduced(self, finding: Finding, subject: Subject) -> tuple[Finding, Start | None, Known | None]:
        """From a guess, where one fails, and then the whole need not be judged; else from the whole, which then is the
        start that is handed back.
        """
        began = time.monotonic()
        probe = starts.Probe(subject, self._reducing(subject))
        guess = starts.guess(subject, named.operator_named(subject.failure), self._reducing(subject), probe)
        if guess is not None:
            tried, known = self._reduce(finding, subject, guess, probe)
            if tried.reproduced:
                return replace(tried, seconds=time.monotonic() - began), None, known
            finding = replace(finding, judged=subject.bench.judged)  # what else was learned was of another Case
        if self._plan.stopped():
            return replace(finding, why_not=STOPPED), None, None
        start, finding = self._start(finding, subject)
        if start is None:
            return finding, None, None
        finding, known = self._reduce(finding, subject, start, probe)
        if not (finding.reproduced or self._plan.stopped()):
            finding = self._of_the_whole(finding, subject, start)
        elif not finding.reproduced:
            finding = replace(finding, why_not=STOPPED)
        return replace(finding, seconds=time.monotonic() - began), start, known

    def _learn(
        self, finding: Finding, subject: Subject, start: Start | None, known: Known | None, cost: float
    ) -> Finding:
        """What else can be found out of what was reproduced: what varies, where inside the compiler, what helps."""
        if self._plan.stopped():
            return finding
        whole = (start.case, start.way) if start is not None else None
        after = Afterwards(subject.bench, whole, lambda: self._time_left(cost), self._say, self._plan.locate)
        finding = after.learn(finding, known)
        if known is not None and finding.repro is not None:
            text = self._placing.say_where(finding.repro, finding, known.case, known.way, reduced=True)
            finding = replace(finding, repro=text)
        return finding

    def _reducing(self, subject: Subject) -> minimise.Means:
        means = self.means
        return minimise.Means(
            subject.bench, subject.home, means.python, means.environment, means.path, means.jobs, self._share_ends,
            self._plan.stopped, self._say,
        )  # fmt: skip

    def _whole(self, subject: Subject, late: Callable[[], bool] = lambda: False) -> Start | NoStart:
        return starts.of_whole(subject, lambda: self._plan.stopped() or late(), self._say)

    def _start(self, finding: Finding, subject: Subject) -> tuple[Start | None, Finding]:
        """The whole, judged; without one, the finding says why."""
        self._say(f"judging {finding.id}: {counted(subject.case)}, does it fail alone?")
        start = self._whole(subject)
        finding = replace(finding, judged=subject.bench.judged)
        if not isinstance(start, Start):
            return None, replace(finding, why_not=start.why, eager_fails_too=start.eager_fails)
        finding = replace(finding, failure=start.failure(subject.failure))
        subject.bench.target = Target(finding.failure)
        if start.now_and_then:
            chance = measured(subject.bench, start.case, start.way, finding.failure, self._say)
            finding = replace(finding, chance=chance)
        return start, finding

    def _reduce(
        self, finding: Finding, subject: Subject, start: Start, probe: starts.Probe
    ) -> tuple[Finding, Known | None]:
        finding = replace(finding, failure=start.failure(subject.failure), judged=subject.bench.judged)
        subject.bench.target = Target(finding.failure)
        cost = _FRESH + start.best.outcome.seconds
        until = self._share_ends - min(2 * cost, self._plan.budget / 4)
        facts = probe.facts() if start.way.home == subject.home else None
        reduction = Reduction(
            self._placing, self._journal, subject.bench, subject.home, start.case, start.inner, start.best, start.way,
            subject.first, cost, until, facts, start.diverging,
        )  # fmt: skip
        return reduction.run(finding)

    def _of_the_whole(self, finding: Finding, subject: Subject, start: Start) -> Finding:
        """A repro of the Case as the program had it, and the component.

        Where fresh processes disagree with the judge, it may come and go.
        """
        bench = subject.bench

        def placed() -> Repro:
            return self._placing.write(
                finding, start.case, start.way, subject.home, bench, first=subject.first,
                runs=1 if self._plan.minimize else 3,
            )  # fmt: skip

        repro = placed()
        if repro.undecided and not finding.chance.flaky:
            finding = replace(finding, chance=measured(bench, start.case, start.way, finding.failure, self._say))
            repro = placed() if finding.chance.flaky else repro
        not_known = tuple(not_kept(start.case))
        finding = replace(
            finding,
            repro=repro,
            why_not="" if repro.verified else repro.reason,
            claims=repro.claims,
            not_known=not_known,
            lines=lines_of(start.case),
        )
        finding = blame_operator(finding, start.case, start.way, None)
        if self._plan.stopped():
            return finding
        # Only now: whoever loses patience on the ladder has a repro already.
        asker = Asker(bench, start.way, finding.chance, lambda: not self._plan.stopped())
        finding = climb_ladder(finding, start.case, asker, self._say)
        repro = self._placing.say_where(repro, finding, start.case, start.way)
        return replace(finding, repro=repro, judged=bench.judged)

    def _versions(self) -> dict[str, str]:
        """Name the torch and the Python that judge, which may not be those that the Case was recorded with."""
        found = versions_of(self.means.python, self.means.environment, self.means.engines.versions)
        return {name: text for name, text in found.items() if text}

    def _time_left(self, cost: float) -> bool:
        """Whether there is time for a few judgements more."""
        return not self._plan.stopped() and time.monotonic() + cost < self._share_ends

    def from_source(self, finding: Finding, found: Found, *, first: bool) -> Finding:
        """From the program's own file, where no graph of it fails alone."""
        tried = self._from_source(finding, found, first, None)
        if found.failure.kind is Kind.HANG and not (tried.reproduced or self._plan.stopped()):
            self._say("once more, with as many compile workers as the program has")
            tried = self._from_source(finding, found, first, with_own_pool(self.means.environment, os.environ))
        return tried

    def _from_source(
        self, finding: Finding, found: Found, first: bool, environment: Mapping[str, str] | None
    ) -> Finding:
        home = self._out / "cases" / finding.id
        # A judge that waited as long for a hang as for another script would wait the whole budget away.
        deadline = self._placing.longest_hang if finding.failure.kind is Kind.HANG else self.means.deadline
        scratch = Path(tempfile.mkdtemp(prefix="source-", dir=self._scratch))
        judge = self._judge_for(frozenset({"cpu"}), environment)
        bench = ScriptBench(
            judge,
            scratch,
            self._source_journal(home, environment),
            folders_of(found.process, self.means.path),
            self.log,
        )
        means = from_source.Means(
            bench,
            from_source.Folders(self._out if first else home, home, scratch),
            deadline,
            from_source.Effort(
                self._share_ends,
                self.means.jobs,
                self._plan.minimize,
                self._plan.stopped,
                self._say,
                self.means.engines.now,
            ),
            lambda script, failure, runs, path, chance: self._placing.verify(
                script, failure, runs, deadline, path, chance, environment
            ),
            lambda script: self._largest_graph(script, deadline),
            self.means.path,
        )
        try:
            return from_source.reproduce(finding, found, means)
        except JudgeBroken as error:
            return replace(finding, why_not=STOPPED if self._plan.stopped() else str(error))

    def _source_journal(self, home: Path, environment: Mapping[str, str] | None) -> Journal:
        """Of scripts: in the folder of the failure, also where there is no Case."""
        with suppress(OSError):  # the journal itself says that it cannot be written
            home.mkdir(parents=True, exist_ok=True)
        where = setting(self.means.python, environment or self.means.environment, self.means.engines.versions)
        return Journal(home / journal.NAME, setting=where, say=self._say)

    def _largest_graph(self, script: Path, deadline: float) -> Graph | None:
        """Of those that Dynamo captures from a script, which may not end by itself."""
        session = Path(tempfile.mkdtemp(prefix="count-", dir=self._scratch))
        self._counting = Again([self.means.python, str(script)], session, deadline, engines=self.means.engines)
        if not self._plan.stopped():
            self._counting.look(session, deadline)
        kept = (p for p in session.glob("processes/*/sketches/*") if p.is_dir())
        return max((case.graph for case in sketches.whole(kept)), key=operators, default=None)


_WITHOUT_GRAPH = {
    True: "Dynamo failed before it had a graph, so there is no graph to run alone.",
    False: "The graph was not kept, so there is none to run alone; logs/trouble.log may say why.",
}


_NOT_THE_WHOLE = "whether the whole graph, as the program had it, fails alone in this way: it was not seen to"
_NO_GRAPH_IS_WRONG = "None of the graphs that were compared with eager is wrong alone, and the program fails."
_SEVERAL_RUNS = "It takes several runs of CUDA graphs to show it, so no graph was compared with eager, or run, alone."


def _why_no_graph(found: Found) -> str:
    if found.inside:
        return _SEVERAL_RUNS
    if found.component and found.failure.kind is not Kind.CRASH:
        return _NO_GRAPH_IS_WRONG
    return _WITHOUT_GRAPH[found.failure.kind is Kind.DYNAMO_ERROR or found.component == Component.DYNAMO.value]


def _without_graph(failure: Failure) -> Component:
    return Component.DYNAMO if failure.kind is Kind.DYNAMO_ERROR else Component.UNKNOWN


def _move(kept: Path, home: Path) -> None:
    """What an earlier run of the same command left beside the Case stays: its journal, checkpoints and repro."""
    for name in (folder.META, folder.GRAPH, folder.TENSORS):
        (home / name).unlink(missing_ok=True)
    for name in ("inner", "smallest"):
        shutil.rmtree(home / name, ignore_errors=True)
    shutil.copytree(kept, home, dirs_exist_ok=True)


def _compared(failure: Failure) -> Check | None:
    """What a caller would have to look at to see it."""
    if failure.kind is not Kind.ACCURACY:
        return None
    wrong = told.wrong_paths(failure.text)
    inputs = any(not path.startswith("out") and not path.endswith(".grad") for path in wrong)
    return Check(strides=failure.fingerprint.message == "stride", inputs=inputs)


def _load_inner(home: Path, check: Check | None, phase: Phase) -> Case | None:
    """The graph after AOTAutograd, where it could be kept: the Case is whole without it."""
    try:
        inner = folder.load(home / "inner", ours=True) if (home / "inner").is_dir() else None
    except SleuthError:
        return None
    return inner and replace(inner, check=check, phase=phase)


__all__ = ["Investigation", "Means", "Plan", "write_issue"]


def write_issue(finding: Finding, out: Path) -> None:
    files.write_text(out / "issue.md", issue.write(finding))
