"""From what was kept in the program to a verified repro: judge, choose a form, climb the ladder, write, verify."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth import minimise
from torchsleuth.afterwards import Afterwards, Known
from torchsleuth.case import checks, files, folder
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Backend, Case, Check
from torchsleuth.case.program import Form, Rendering, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.checkpoints import Checkpoints, Pace
from torchsleuth.errors import JudgeBroken, SleuthError
from torchsleuth.judge.base import Judge
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.setting import setting
from torchsleuth.judge.trial import deadline_for
from torchsleuth.judge.verify import Verification, verify
from torchsleuth.locate import named
from torchsleuth.locate.ladder import Component, Ladder, climb
from torchsleuth.reduce import journal
from torchsleuth.reduce.chance import Chance, measure
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.reducer import Hints, counted
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process
from torchsleuth.write import issue, repro_text
from torchsleuth.write.findings import Culprit, Finding, Repro

Say = Callable[[str], None]
_LONGEST_DEADLINE = 600.0
_LEAST_HANG = 30.0
_HANGS_IN_BUDGET = 8
_ONCE_MORE = (1, 2, 3)  # attempts, where a Case that failed in the program passes alone
NOW_AND_THEN = "it fails alone, now and then"
STOPPED = "stopped by Ctrl-C before it was known"


@dataclass(frozen=True)
class Means:
    """How a program's Cases are judged: its Python, its environment, its path."""

    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    jobs: int
    deadline: float

    @staticmethod
    def of(process: Process, environment: Mapping[str, str], seconds: float, jobs: int) -> Means:
        path = tuple(p for p in process.hello.get("path", []) if isinstance(p, str))
        extra = [
            p or str(process.hello.get("cwd", ".")) for p in path if "site-packages" not in p and "/lib/python" not in p
        ]
        deadline = min(deadline_for(seconds), _LONGEST_DEADLINE)
        return Means(str(process.hello["executable"]), judge_environment(environment), tuple(extra), jobs, deadline)


@dataclass(frozen=True)
class Plan:
    """How far to go."""

    minimize: bool = False
    budget: float = 600.0
    stopped: Callable[[], bool] = lambda: False
    keep_only: bool = False  # write the Case and judge nothing
    journal: Path | None = None  # of the Case that was named, where it is not one of this run


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
        self._judges: dict[str, Judge] = {}
        self._until = time.monotonic() + self._plan.budget
        self._journal = self.known
        self._setting = ""

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
        for judge in self._judges.values():
            judge.cancel()

    def _judge_for(self, devices: frozenset[str]) -> Judge:
        key = "cpu" if devices <= {"cpu", "meta"} else ",".join(sorted(devices))
        if key not in self._judges:
            self._say("starting a judge")
            place = self._scratch / f"judge-{len(self._judges)}"
            place.mkdir()
            self._judges[key] = open_judge(
                devices, python=self.means.python, environment=self.means.environment, scratch=place,
                path=self.means.path, jobs=self.means.jobs,
            )  # fmt: skip
        return self._judges[key]

    def _bench(self, case: Case, deadline: float | Callable[[Case], float]) -> Bench:
        judge = self._judge_for(case.devices)
        place = Path(tempfile.mkdtemp(prefix="bench-", dir=self._scratch))  # each numbers its trials from 1
        return Bench(
            judge, place, python=self.means.python, environment=self.means.environment, deadline=deadline,
            path=self.means.path, memory=self._journal,
        )  # fmt: skip

    def hangs(self, found: Found) -> bool:
        """Whether a stage that lasts too long in the program does not end alone either."""
        if found.case is None:
            return False
        case = replace(folder.load(found.case, ours=True), phase=found.failure.phase)
        best, _ = self._find_form(self._bench(case, hang_limit(case)), case, None, found.case, found.failure)
        return best is not None

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
                component=Component.DYNAMO
                if found.dynamo or found.failure.kind is Kind.DYNAMO_ERROR
                else Component.UNKNOWN,
                culprit=Culprit(source=named.line_named(found.failure)),
                why_not=_DYNAMOS_NUMBERS if found.dynamo else _WITHOUT_GRAPH[found.failure.kind is Kind.DYNAMO_ERROR],
                seconds=time.monotonic() - began,
            )
        _move(found.case, home)
        try:
            check = Check() if found.failure.kind is Kind.ACCURACY else None
            case = replace(folder.load(home, ours=True), failure=found.failure, phase=found.failure.phase, check=check)
            inner = _load_inner(home)
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
            culprit=_culprit(found.failure, [*([inner] if inner else []), case]),
        )
        if self._plan.keep_only:
            return replace(finding, why_not="it was kept and not judged, as --capture 1 asks")
        try:
            finding = self._reproduce(finding, case, inner, home, found, first=first)
        except JudgeBroken as error:  # by Ctrl-C, too, while it starts
            finding = replace(finding, why_not=STOPPED if self._plan.stopped() else str(error))
        return replace(finding, seconds=time.monotonic() - began)

    def _open_journal(self, home: Path) -> None:
        self._setting = self._setting or setting(self.means.python, self.means.environment)
        places = [home / journal.NAME, *([self._plan.journal] if self._plan.journal else [])]
        self._journal = Journal(*places, setting=self._setting, say=self._say)
        if self._journal.begun_with:
            self._say(f"going on from a journal of {self._journal.begun_with} judgements")
        self._journal.learn(self.known)

    def _reproduce(
        self, finding: Finding, case: Case, inner: Case | None, home: Path, found: Found, *, first: bool
    ) -> Finding:
        bench = self._bench(case, self._hang_limit if found.failure.kind is Kind.HANG else self.means.deadline)
        self._say(f"judging {finding.id}: {counted(case)}, does it fail alone?")
        best, told = self._find_form(bench, case, inner, home, found.failure)
        finding = replace(finding, judged=bench.judged)
        if best is None:
            eager = told is not None and told.startswith("eager itself fails")
            return replace(finding, why_not=told or "it does not fail alone", eager_fails_too=eager)
        failure = _said_alone(best, found.failure)
        used = case if best.form is not Form.INNER or inner is None else inner
        used = minimise.with_tolerance(used, best)
        finding = replace(finding, failure=failure)
        runs = 1 if self._plan.minimize else 3
        began = time.monotonic()
        if told == NOW_AND_THEN:
            finding = replace(finding, chance=self._measure(bench, used, home, best, failure))
        repro = self._write_and_verify(finding, used, best, home, bench, first=first, runs=runs)
        if repro.undecided and not finding.chance.flaky:
            finding = replace(finding, chance=self._measure(bench, used, home, best, failure))
            if finding.chance.flaky:
                repro = self._write_and_verify(finding, used, best, home, bench, first=first, runs=runs)
        cost = time.monotonic() - began
        finding = replace(finding, repro=repro, why_not="" if repro.verified else repro.reason)
        # Only now: whoever loses patience on the ladder has a repro already.
        ladder = self._climb(bench, used, home, best, finding)
        if self._plan.stopped():
            return replace(finding, judged=bench.judged)
        finding = replace(finding, component=ladder.component, rungs=ladder.rungs, judged=bench.judged)
        finding = replace(finding, repro=self._say_where(repro, finding, used, best))
        known = None
        if self._plan.minimize and repro.verified:
            finding, known = self._minimise(finding, used, inner, best, home, bench, first=first, cost=cost)
        if self._plan.stopped():
            return finding
        place = home / "inner" if best.form is Form.INNER else home
        way = Way(best.form, best.with_data, place)
        later = Afterwards(bench, way, lambda: self._time_left(cost), self._say)
        finding = later.learn(finding, used, known)
        if known is not None and finding.repro is not None:
            reduced = _in_way(best, known.way)
            finding = replace(finding, repro=self._say_where(finding.repro, finding, known.case, reduced, reduced=True))
        return finding

    def _time_left(self, cost: float) -> bool:
        """Whether there is time for a few judgements more."""
        return not self._plan.stopped() and time.monotonic() + cost < self._share_ends

    def _minimise(
        self,
        finding: Finding,
        case: Case,
        inner: Case | None,
        best: Tried,
        home: Path,
        bench: Bench,
        *,
        first: bool,
        cost: float,
    ) -> tuple[Finding, Known | None]:
        """`cost`: seconds that it took to verify the unreduced repro, and will take about to verify the reduced one."""
        before = finding.judged
        believed = finding.chance
        checkpoints = Checkpoints(bench, self._say, home)
        pace = Pace(cost, operators(case.graph))

        def better(smaller: Case, way: Way) -> None:
            nonlocal finding
            if (way.form, way.data) == (best.form, best.with_data):
                self._journal.note_smaller(smaller)
            tried = _in_way(best, way)
            checkpoints.write(smaller, way, self._text(finding, smaller, tried, reduced=True)[1])
            if pace.due(operators(smaller.graph)) and not self._plan.stopped():
                with pace.spending():
                    finding = self._in_place(finding, smaller, tried, way.home, home, bench, first=first, runs=1)

        place = home / "inner" if best.form is Form.INNER else home
        means = minimise.Means(
            bench, place, self.means.python, self.means.environment, self.means.path, self.means.jobs,
            self._share_ends - min(2 * cost, self._plan.budget / 4), self._plan.stopped, self._say,
            lambda: finding.chance, better,
        )  # fmt: skip
        hints = Hints(finding.culprit.op, best.outcome.noted)
        found = minimise.reduce_case(case, finding.failure, best.form, best.with_data, hints, means, inner)
        smallest, way = self._smallest_known(found, case, Way(best.form, best.with_data, place))
        finding = replace(finding, judged=before + found.judged, judged_to_smallest=before + found.judged_to_smallest)
        for one, its in ((smallest, way), *checkpoints.larger_than(smallest)):
            if self._plan.stopped():
                break
            tried = _in_way(best, its)
            placed = self._in_place(finding, one, tried, its.home, home, bench, first=first, runs=3)
            if placed.repro is not finding.repro:
                return placed, Known(one, its, found.complete and one is smallest, found.passing)
            finding = placed
            if finding.chance.flaky and not believed.flaky:  # so what passed may have passed by chance
                return self._minimise(finding, case, inner, best, home, bench, first=first, cost=cost)
        return finding, None

    def _in_place(
        self,
        finding: Finding,
        case: Case,
        best: Tried,
        place: Path,
        home: Path,
        bench: Bench,
        *,
        first: bool,
        runs: int,
    ) -> Finding:
        """The finding with a repro of `case`, if that is verified; else the finding as it was."""
        repro = self._write_and_verify(
            finding, case, best, home, bench, first=first, runs=runs, reduced=True, data_from=place
        )
        if not repro.verified:
            self._say(f"the smaller script is not good enough: {repro.reason}")
            if repro.undecided and not finding.chance.flaky:
                finding = replace(finding, chance=self._measure(bench, case, home, best, finding.failure))
            return finding
        folder.save(case, home / "smallest")
        return replace(finding, repro=repro, culprit=_culprit_left(finding.culprit, case))

    def _measure(self, bench: Bench, case: Case, home: Path, best: Tried, failure: Failure) -> Chance:
        """How often a Case fails that failed and passed."""
        place = home / "inner" if best.form is Form.INNER else home

        def fails(attempts: Sequence[int]) -> list[bool]:
            tried = bench.try_again(case, place, best.form, attempts, data=best.with_data)
            return [minimise.same_failure(one, failure) for one in tried]

        chance = measure(fails)
        self._say(f"it does not fail each time: {chance.failed} of {chance.runs} judgements")
        return chance

    def _smallest_known(self, found: minimise.Reduced, whole: Case, way: Way) -> tuple[Case, Way]:
        """What this reduction came to, or what an earlier one had when it was cut short."""
        noted, now = self._journal.smallest(ours=self._plan.journal is None), found.case
        if noted is None or operators(noted.graph) >= operators(now.graph):
            return now, found.way
        # A journal that came from elsewhere brings no code that the user was not asked about.
        known = {code.source for code in checks.codes(whole.surroundings)}
        same = {code.source for code in checks.codes(noted.surroundings)} <= known
        return (replace(noted, failure=now.failure), way) if same and noted.phase is now.phase else (now, found.way)

    def _find_form(
        self, bench: Bench, case: Case, inner: Case | None, home: Path, failure: Failure
    ) -> tuple[Tried | None, str | None]:
        """The best form that fails as the program did; else why none does."""
        reasons: list[str] = []
        valued = any(s.kept for s in case.storages)
        plans: list[tuple[Case, Path, Form, bool]] = []
        for form in (Form.COMPILE, Form.BACKEND):
            plans += [(case, home, form, False), *([(case, home, form, True)] if valued else [])]
        if inner is not None:
            plans.append((inner, home / "inner", Form.INNER, False))
        for used, place, form, data in plans:
            if self._plan.stopped():
                return None, STOPPED
            tried = bench.try_case(used, place, form, data=data)
            if minimise.same_failure(tried, failure):
                return tried, None
            reason = _reason(tried)
            self._say(f"form {form.value}{' with its data' if data else ''}: {reason}")
            if tried.outcome.verdict is Verdict.INVALID and (data or not valued) and form is Form.COMPILE:
                return None, reason
            reasons.append(f"as {form.value}{' with its data' if data else ''}: {reason}")
        if failure.kind is Kind.HANG or self._plan.stopped():
            return None, "; ".join(reasons)
        again = bench.try_again(case, home, Form.COMPILE, _ONCE_MORE, data=valued)
        found = next((tried for tried in again if minimise.same_failure(tried, failure)), None)
        return (found, NOW_AND_THEN) if found is not None else (None, "; ".join(reasons))

    def _climb(self, bench: Bench, case: Case, home: Path, best: Tried, finding: Finding) -> Ladder:
        if best.form is Form.INNER:
            return Ladder(Component.INDUCTOR, ())
        self._say("climbing the ladder: eager, aot_eager, aot_eager_decomp_partition")

        def judge(backends: Sequence[Backend]) -> list[Outcome]:
            if not finding.chance.flaky:
                return [t.outcome for t in bench.try_all(case, home, best.form, list(backends), data=best.with_data)]
            return [often(replace(case, surroundings=replace(case.surroundings, backend=b))) for b in backends]

        def often(rung: Case) -> Outcome:
            tried = bench.try_again(rung, home, best.form, range(finding.chance.repeats), data=best.with_data)
            return next((t.outcome for t in tried if t.outcome.verdict is Verdict.FAILED), tried[0].outcome)

        return climb(case, finding.failure, judge)

    def _write_and_verify(
        self,
        finding: Finding,
        case: Case,
        best: Tried,
        home: Path,
        bench: Bench,
        *,
        first: bool,
        runs: int,
        reduced: bool = False,
        data_from: Path | None = None,
    ) -> Repro:
        """Verified where nobody looks; only then does it take the place of what was there."""
        failure = finding.failure
        limit = self._hang_limit(case) if failure.kind is Kind.HANG else None
        rendering, text = self._text(finding, case, best, reduced=reduced)
        ops = operators(case.graph)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=self._scratch))
        files.write_text(draft / "repro.py", text)
        if rendering.data:
            bench.write_data(rendering, data_from or home, draft / DATA_FILE)
        self._say("verifying repro.py in fresh processes, without torchsleuth")
        # A module of the user's that the script must import is found where the program found it.
        path = self.means.path if rendering.imports != ("torch",) else ()
        deadline = (limit or 0) * 2 + self.means.deadline
        proof = self._verify(draft / "repro.py", failure, runs, deadline, path, finding.chance)
        final = (self._out if first else home) if proof.verified else home / "unverified"
        data_bytes = _put_in_place(draft, final)
        return _repro(final / "repro.py", text, rendering.form, ops, rendering.imports, data_bytes, proof)

    def _text(self, finding: Finding, case: Case, best: Tried, *, reduced: bool) -> tuple[Rendering, str]:
        """The script of a Case, and the script with its docstring."""
        limit = self._hang_limit(case) if finding.failure.kind is Kind.HANG else None
        rendering = render(case, best.form, data=best.with_data, hang_limit=limit)
        ops = operators(case.graph)
        notes = [] if reduced or ops <= 3 else [f"Not reduced: {ops} operators, as the program had them."]
        notes += [finding.chance.said] if finding.chance.flaky else []
        notes += repro_text.facts(finding) if reduced else []
        text = repro_text.with_docstring(rendering, case, finding.failure, finding.component, finding.rungs, notes)
        return rendering, text

    def _say_where(self, repro: Repro, finding: Finding, case: Case, best: Tried, *, reduced: bool = False) -> Repro:
        """The same script; its docstring says what is known by now."""
        text = self._text(finding, case, best, reduced=reduced)[1]
        files.write_text(repro.path, text)
        return replace(repro, source=text)

    def _hang_limit(self, case: Case) -> float:
        """Short enough that a hang is judged and verified several times within the budget."""
        return min(hang_limit(case), max(_LEAST_HANG, self._plan.budget / _HANGS_IN_BUDGET))

    def _verify(
        self, script: Path, failure: Failure, runs: int, deadline: float, path: Sequence[str], chance: Chance
    ) -> Verification:
        if self._plan.stopped():
            return Verification(0, 0, None, (), STOPPED)
        environment = dict(self.means.environment)
        if path:
            environment["PYTHONPATH"] = os.pathsep.join([*path, environment.get("PYTHONPATH", "")])
        proof = verify(
            script, failure, python=self.means.python, environment=environment, runs=chance.verifications(runs),
            deadline=deadline, jobs=self.means.jobs, flaky=chance.flaky, stopped=self._plan.stopped,
        )  # fmt: skip
        return replace(proof, reason=STOPPED) if self._plan.stopped() and not proof.verified else proof


def _in_way(tried: Tried, way: Way) -> Tried:
    return replace(tried, form=way.form, with_data=way.data)


def _put_in_place(draft: Path, final: Path) -> int:
    """Moves a script and its data; the bytes of the data."""
    data = draft / DATA_FILE
    final.mkdir(parents=True, exist_ok=True)
    (final / DATA_FILE).unlink(missing_ok=True)
    size = 0
    if data.exists():
        size = data.stat().st_size
        with files.replacing(final / DATA_FILE) as temporary:
            shutil.copy(data, temporary)
    files.write_text(final / "repro.py", (draft / "repro.py").read_text(encoding="utf-8"))
    return size


def _repro(
    path: Path, text: str, form: Form, ops: int, imports: tuple[str, ...], data_bytes: int, proof: Verification
) -> Repro:
    return Repro(
        path, text, form.value, ops, imports, data_bytes, proof.verified, proof.runs, proof.failed_runs, proof.reason,
        proof.undecided and not proof.verified,
    )  # fmt: skip


_WITHOUT_GRAPH = {
    True: "Dynamo failed before it had a graph, so there is no graph to run alone.",
    False: "The graph was not kept, so there is none to run alone; logs/trouble.log may say why.",
}


_DYNAMOS_NUMBERS = "Every graph is right and the program is not: Dynamo's own work cannot be run alone yet."


def hang_limit(case: Case) -> float:
    """Seconds after which a graph that eager runs at once is said to hang: more for more operators."""
    return deadline_for(0.05 * operators(case.graph))


def _move(kept: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(kept, home)


def _load_inner(home: Path) -> Case | None:
    return folder.load(home / "inner", ours=True) if (home / "inner").is_dir() else None


def _culprit(failure: Failure, cases: list[Case]) -> Culprit:
    op = named.operator_named(failure)
    return Culprit(op, None, named.line_named(failure) or (named.line_of(op, cases) if op else None))


def _said_alone(tried: Tried, failure: Failure) -> Failure:
    """The program's failure; for a death whose signal nobody saw, the one that the judge saw."""
    alone = tried.outcome.failure
    if failure.kind in (Kind.CRASH, Kind.OUT_OF_MEMORY) and alone is not None:
        return replace(failure, fingerprint=alone.fingerprint)
    return failure


def _culprit_left(known: Culprit, case: Case) -> Culprit:
    """What the error named; else the only operator that is left, and its line."""
    calls = [n for n in case.graph.nodes if n.is_call]
    if len(calls) != 1:
        return known
    return Culprit(known.op or calls[0].target, known.compiler_pass, known.source or calls[0].source)


def _reason(tried: Tried) -> str:
    outcome = tried.outcome
    if outcome.verdict is Verdict.FAILED and outcome.failure is not None:
        return f"fails in another way: {outcome.failure.fingerprint.line}"
    if outcome.verdict is Verdict.INVALID:
        return outcome.reason or "eager itself fails"
    return f"{outcome.verdict.value} {outcome.reason}".strip()


def write_issue(finding: Finding, out: Path) -> None:
    files.write_text(out / "issue.md", issue.write(finding))
