"""Where a reduction starts: a Case that fails alone as the program did, and the form in which it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.model import Case
from torchsleuth.case.program import Form
from torchsleuth.investigate import minimise
from torchsleuth.investigate.placing import STOPPED
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.generated import Noted, noted_by
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate.divergence import Diverging
from torchsleuth.reduce.facts import Facts
from torchsleuth.reduce.reducer import Hints

_ONCE_MORE = (1, 2, 3)  # attempts, where a Case that failed in the program passes alone


@dataclass(frozen=True)
class Subject:
    """What was kept of a failure, and where it is judged."""

    case: Case
    inner: Case | None  # the graph after AOTAutograd
    home: Path
    failure: Failure  # as the program had it
    bench: Bench
    first: bool = False  # of those that ended the program


@dataclass(frozen=True)
class Start:
    case: Case
    inner: Case | None
    best: Tried
    way: Way
    now_and_then: bool = False
    diverging: Diverging | None = None  # of a guess at wrong numbers: where they begin in the whole

    def failure(self, of_program: Failure) -> Failure:
        """The program's failure; for a death, the one that the judge saw: its signal, or that it was for memory."""
        alone = self.best.outcome.failure
        if of_program.kind not in (Kind.CRASH, Kind.OUT_OF_MEMORY) or alone is None:
            return of_program
        if not minimise.same_failure(self.best, of_program):
            return of_program  # a repro must not be held to another failure than the program's
        return replace(of_program, kind=alone.kind, fingerprint=alone.fingerprint)


class Probe:
    """What the values of a Case look like: one eager run, made when it is first asked for."""

    def __init__(self, subject: Subject, means: minimise.Means) -> None:
        self._subject = subject
        self._means = means
        self._facts: Facts | None = None

    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = minimise.probe(self._subject.case, self._means, self._subject.home)
        return self._facts


def guess(subject: Subject, named: str | None, means: minimise.Means, probe: Probe) -> Start | None:
    """What may be to blame, where it fails alone: the operator at which the numbers begin to be wrong, the one that the
    error names, those of the kernel that failed in the program.
    """
    failure, wrong = subject.failure, subject.failure.kind is Kind.ACCURACY
    hints = Hints(named, Noted() if wrong else noted_by(failure.text))
    if failure.kind is Kind.HANG or not (wrong or hints != Hints()):
        return None
    found = minimise.guessed(subject.case, failure, hints, means, probe.facts())
    if found is None:
        return None
    way = Way(Form.COMPILE, False, subject.home)
    tried = subject.bench.try_case(found.case, way.home, way.form, data=way.data)
    return Start(minimise.with_tolerance(found.case, tried), subject.inner, tried, way, diverging=found.diverging)


@dataclass(frozen=True)
class NoStart:
    """Why a Case, judged alone, does not fail as it did in the program."""

    why: str
    eager_fails: bool = False


def of_whole(subject: Subject, stopped: Callable[[], bool], say: Callable[[str], None]) -> Start | NoStart:
    """Find the best form in which the whole fails as it did in the program."""
    case, inner, home, failure, bench = subject.case, subject.inner, subject.home, subject.failure, subject.bench
    reasons: list[str] = []
    valued = any(s.kept for s in case.storages)
    for used, place, form, data in _plans(subject):
        if stopped():
            return NoStart(STOPPED)
        tried = bench.try_case(used, place, form, data=data)
        if minimise.same_failure(tried, failure):
            return Start(minimise.with_tolerance(used, tried), inner, tried, Way(form, data, place))
        reason = _reason(tried)
        say(f"form {form.value}{' with its data' if data else ''}: {reason}")
        invalid = tried.outcome.verdict is Verdict.INVALID and tried.rendering is not None
        if invalid and (data or not valued) and form is Form.COMPILE:
            return NoStart(reason, eager_fails=True)
        reasons.append(f"as {form.value}{' with its data' if data else ''}: {reason}")
    if failure.kind is Kind.HANG or stopped():
        return NoStart("; ".join(reasons))
    again = bench.try_again(case, home, Form.COMPILE, _ONCE_MORE, data=valued)
    found = next((tried for tried in again if minimise.same_failure(tried, failure)), None)
    if found is None:
        return NoStart("; ".join(reasons) or "it does not fail alone")
    return Start(minimise.with_tolerance(case, found), inner, found, Way(Form.COMPILE, valued, home), now_and_then=True)


def _plans(subject: Subject) -> Iterator[tuple[Case, Path, Form, bool]]:
    """The forms in which a Case is judged, the best first: which graph, where it stands, whether with its data."""
    case, inner, home = subject.case, subject.inner, subject.home
    valued = any(s.kept for s in case.storages)
    for form in (Form.COMPILE, Form.BACKEND):
        yield case, home, form, False
        if valued:
            yield case, home, form, True
    if inner is not None and inner.check is None:  # a program compares, a call of Inductor's inner entry does not
        yield inner, home / "inner", Form.INNER, False


def passes(subject: Subject) -> bool:
    """Whether compiled code comes to its end in some form."""
    tried = (subject.bench.try_case(used, home, form, data=data) for used, home, form, data in _plans(subject))
    return any(one.outcome.verdict is Verdict.PASSED for one in tried)


def _reason(tried: Tried) -> str:
    outcome = tried.outcome
    if outcome.verdict is Verdict.FAILED and outcome.failure is not None:
        return f"fails in another way: {outcome.failure.fingerprint.line}"
    if outcome.verdict is Verdict.INVALID:
        return outcome.reason or "eager itself fails"
    if outcome.verdict is Verdict.PASSED:
        return "it passes"
    return f"it was not judged to its end: {outcome.reason}"
