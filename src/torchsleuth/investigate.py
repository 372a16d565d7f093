"""From what was kept in the program to a verified repro: judge, choose a form, climb the ladder, write, verify."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from torchsleuth import minimise
from torchsleuth.case import files, folder
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Backend, Case, Check
from torchsleuth.case.program import Form, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.errors import JudgeBroken, SleuthError
from torchsleuth.judge.base import Judge
from torchsleuth.judge.bench import Bench, Tried
from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.outcome import Verdict
from torchsleuth.judge.trial import deadline_for
from torchsleuth.judge.verify import Verification, verify
from torchsleuth.locate import named
from torchsleuth.locate.ladder import Component, Ladder, climb
from torchsleuth.reduce.reducer import Hints, counted
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process
from torchsleuth.write import issue, repro_text
from torchsleuth.write.findings import Culprit, Finding, Repro

Say = Callable[[str], None]
_LONGEST_DEADLINE = 600.0
_LOOK_EVERY = 0.2
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


class Investigation:
    """Judges are warm processes: one a set of devices, opened when first needed, closed at the end."""

    def __init__(self, means: Means, out: Path, say: Say, plan: Plan | None = None) -> None:
        self.means = means
        self._plan = plan or Plan()
        self._out = out
        self._say = say
        self._scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-"))
        self._judges: dict[str, Judge] = {}

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

    def _bench(self, case: Case, deadline: float) -> Bench:
        judge = self._judge_for(case.devices)
        place = Path(tempfile.mkdtemp(prefix="bench-", dir=self._scratch))  # each numbers its trials from 1
        return Bench(
            judge, place, python=self.means.python, environment=self.means.environment, deadline=deadline,
            path=self.means.path,
        )  # fmt: skip

    def hangs(self, found: Found) -> bool:
        """Whether a stage that lasts too long in the program does not end alone either."""
        if found.case is None:
            return False
        case = replace(folder.load(found.case, ours=True), phase=found.failure.phase)
        best, _ = self._find_form(self._bench(case, hang_limit(case)), case, None, found.case, found.failure)
        return best is not None

    # --- one failure ----------------------------------------------------------------------------------------------

    def look_into(self, found: Found, name: str, *, first: bool) -> Finding:
        began = time.monotonic()
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

    def _reproduce(
        self, finding: Finding, case: Case, inner: Case | None, home: Path, found: Found, *, first: bool
    ) -> Finding:
        deadline = hang_limit(case) if found.failure.kind is Kind.HANG else self.means.deadline
        bench = self._bench(case, deadline)
        before = bench.judge.judged
        self._say(f"judging {finding.id}: {counted(case)}, does it fail alone?")
        best, told = self._find_form(bench, case, inner, home, found.failure)
        finding = replace(finding, judged=bench.judge.judged - before)
        if best is None:
            eager = told is not None and told.startswith("eager itself fails")
            return replace(finding, why_not=told or "it does not fail alone", eager_fails_too=eager)
        failure = _said_alone(best, found.failure)
        used = case if best.form is not Form.INNER or inner is None else inner
        used = minimise.with_tolerance(used, best)
        ladder = self._climb(bench, used, home, best, failure)
        if self._plan.stopped():
            ladder = Ladder(Component.UNKNOWN, ())
        finding = replace(
            finding, failure=failure, component=ladder.component, rungs=ladder.rungs, judged=bench.judge.judged - before
        )
        runs = 1 if self._plan.minimize else 3
        repro = self._write_and_verify(finding, used, best, ladder, home, bench, first=first, runs=runs)
        finding = replace(finding, repro=repro, why_not="" if repro.verified else repro.reason)
        if not self._plan.minimize or not repro.verified:
            return finding
        return self._minimise(finding, used, inner, best, ladder, home, bench, first=first)

    def _minimise(
        self,
        finding: Finding,
        case: Case,
        inner: Case | None,
        best: Tried,
        ladder: Ladder,
        home: Path,
        bench: Bench,
        *,
        first: bool,
    ) -> Finding:
        place = home / "inner" if best.form is Form.INNER else home
        means = minimise.Means(
            bench, place, self.means.python, self.means.environment, self.means.path, self.means.jobs,
            self._plan.budget, self._plan.stopped, self._say,
        )  # fmt: skip
        hints = Hints(finding.culprit.op, best.outcome.noted)
        smaller = minimise.reduce_case(case, finding.failure, best.form, best.with_data, hints, means, inner)
        best = replace(best, form=smaller.form, with_data=smaller.with_data)
        before = finding.judged
        finding = replace(
            finding, judged=before + smaller.judged, judged_to_smallest=before + smaller.judged_to_smallest
        )
        repro = self._write_and_verify(
            finding, smaller.case, best, ladder, home, bench, first=first, runs=3, reduced=True
        )
        if not repro.verified:
            self._say(f"the smaller script is not good enough: {repro.reason}")
            return finding
        folder.save(smaller.case, home / "smallest")
        return replace(finding, repro=repro, culprit=_culprit_left(finding.culprit, smaller.case))

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
        return None, "; ".join(reasons)

    def _climb(self, bench: Bench, case: Case, home: Path, best: Tried, failure: Failure) -> Ladder:
        if best.form is Form.INNER:
            return Ladder(Component.INDUCTOR, ())
        self._say("climbing the ladder: eager, aot_eager, aot_eager_decomp_partition")

        def judge(backends: Sequence[Backend]) -> list[object]:
            return [t.outcome for t in bench.try_all(case, home, best.form, list(backends), data=best.with_data)]

        return climb(case, failure, judge)  # type: ignore[arg-type]

    def _write_and_verify(
        self,
        finding: Finding,
        case: Case,
        best: Tried,
        ladder: Ladder,
        home: Path,
        bench: Bench,
        *,
        first: bool,
        runs: int,
        reduced: bool = False,
    ) -> Repro:
        """Verified where nobody looks; only then does it take the place of what was there."""
        failure = finding.failure
        limit = hang_limit(case) if failure.kind is Kind.HANG else None
        rendering = render(case, best.form, data=best.with_data, hang_limit=limit)
        ops = operators(case.graph)
        notes = [] if reduced or ops <= 3 else [f"Not reduced: {ops} operators, as the program had them."]
        text = repro_text.with_docstring(rendering, case, failure, ladder.component, ladder.rungs, notes)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=self._scratch))
        files.write_text(draft / "repro.py", text)
        if rendering.data:
            bench.write_data(rendering, home, draft / DATA_FILE)
        self._say("verifying repro.py in fresh processes, without torchsleuth")
        # A module of the user's that the script must import is found where the program found it.
        path = self.means.path if rendering.imports != ("torch",) else ()
        proof = self._verify(draft / "repro.py", failure, runs, (limit or 0) * 2 + self.means.deadline, path)
        final = (self._out if first else home) if proof.verified else home / "unverified"
        data_bytes = _put_in_place(draft, final)
        return _repro(final / "repro.py", text, rendering.form, ops, rendering.imports, data_bytes, proof)

    def _verify(self, script: Path, failure: Failure, runs: int, deadline: float, path: Sequence[str]) -> Verification:
        """In a thread of its own, so that Ctrl-C can end what it started."""
        if self._plan.stopped():
            return Verification(0, 0, None, (), STOPPED)
        environment = dict(self.means.environment)
        if path:
            environment["PYTHONPATH"] = os.pathsep.join([*path, environment.get("PYTHONPATH", "")])
        with ThreadPoolExecutor(1, "verification") as pool:
            proof = pool.submit(
                verify, script, failure, python=self.means.python, environment=environment, runs=runs,
                deadline=deadline, jobs=self.means.jobs,
            )  # fmt: skip
            while not wait([proof], _LOOK_EVERY).done:
                if self._plan.stopped():
                    end_guarded()
        return replace(proof.result(), reason=STOPPED) if self._plan.stopped() else proof.result()


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
        path, text, form.value, ops, imports, data_bytes, proof.verified, proof.runs, proof.failed_runs, proof.reason
    )


_WITHOUT_GRAPH = {
    True: "Dynamo failed before it had a graph, so there is no graph to run alone.",
    False: "The graph was not kept, so there is none to run alone; logs/trouble.log may say why.",
}


_DYNAMOS_NUMBERS = "Every graph is right and the program is not: Dynamo's own work cannot be run alone yet."


def end_guarded() -> None:
    """Ends what wardens of this process stand over; a warden that is told to stop ends all that is below it."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "torchsleuth.judge.warden" in child.cmdline():
                child.terminate()


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
