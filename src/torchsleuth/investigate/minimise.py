"""Reducing one Case with a real Judge: probe it, search, and hand back the smallest that fails in the same way."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import CannotRender, Form, render
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.match import Match
from torchsleuth.locate import divergence
from torchsleuth.locate.divergence import Diverging
from torchsleuth.reduce import cone
from torchsleuth.reduce.chance import ALWAYS, Chance, repeatedly
from torchsleuth.reduce.facts import Facts, from_graph
from torchsleuth.reduce.flatten import flattened
from torchsleuth.reduce.inline import inlined
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Hints, Reducer, counted
from torchsleuth.reduce.units import has_levels
from torchsleuth.referee import told
from torchsleuth.write.progress import duration, status_of

Say = Callable[[str], None]
_PROBE_SECONDS = 120.0
_LOOK_EVERY = 0.2
_FEW = 3  # operators: no other way to say it is tried where there are not more than these
_FEW_OF_LEVELS = 10  # the same, for the ATen graph of a program whose own graph holds functorch levels


@dataclass(frozen=True)
class Means:
    """What reducing needs besides the Case."""

    bench: Bench
    home: Path  # where the Case stands
    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    jobs: int
    until: float  # of time.monotonic
    stopped: Callable[[], bool]
    say: Say
    chance: Callable[[], Chance] = lambda: ALWAYS  # of failing, as far as it is known by now
    better: Callable[[Case, Way], None] = lambda case, way: None  # told of each Case that is smaller or simpler
    pause: Callable[[Case, Way], None] = lambda case, way: None  # told of the best so far before each judgement
    settled: Callable[[Case, Way], None] = lambda case, way: None  # told of what has no operator too many
    aside: Callable[[], int] = lambda: 0  # judgements that were made on the way and not in order to make it smaller
    diverging: Diverging | None = None  # of wrong numbers in a larger Case: where they begin


@dataclass(frozen=True)
class Reduced:
    case: Case
    judged: int
    judged_to_smallest: int
    way: Way
    complete: bool = True  # it ended because nothing was left to try, and every answer was known
    diverging: Diverging | None = None  # of wrong numbers: where they begin


def same_failure(tried: Tried, failure: Failure) -> bool:
    """Return whether a judged Case fails as the program did."""
    return tried.matches(failure) is Match.SAME


def reduce_case(
    case: Case,
    failure: Failure,
    form: Form,
    data: bool,
    hints: Hints,
    means: Means,
    inner: Case | None = None,
    facts: Facts | None = None,  # None: found out by a probe
) -> Reduced:
    """The smallest of what the Case and, where that promises more, its ATen graph can be reduced to."""
    run = _Run(failure, means, means.bench.judged)
    way = Way(form, data, means.home)
    if form is Form.INNER:
        return _of_inner(run, case, way, hints, facts)
    flat = flattened(inner) if inner is not None else None
    if flat is not None and has_levels(case.graph):
        found = run.flat(flat, means.home / "inner")
        if found is not None and operators(found.case.graph) <= _FEW_OF_LEVELS:
            return found
        return _smaller(run.reduce(case, way, hints, facts), found)
    found = run.reduce(case, way, hints, facts)
    if flat is None or operators(found.case.graph) <= _FEW:
        return found
    return _smaller(found, run.flat(flat, means.home / "inner"))


def wrong_results(case: Case, failure: Failure) -> tuple[str, ...]:
    """Nodes whose values the referee called wrong."""
    if case.check is None or case.phase.backward:
        return ()
    return cone.nodes_at(case.graph, told.wrong_paths(failure.text))


@dataclass(frozen=True)
class Guessed:
    case: Case
    diverging: Diverging | None  # of wrong numbers in the whole: where they begin


def guessed(case: Case, failure: Failure, hints: Hints, means: Means, facts: Facts) -> Guessed | None:
    """A few operators that fail alike, of where the numbers begin to be wrong, of what the error or the failing kernel
    names.  The whole is not judged.
    """
    run, way = _Run(failure, means, means.bench.judged), Way(Form.COMPILE, False, means.home)
    oracle = run.oracle(case, way, _State(means))
    suspects = _Suspects(run, way)
    hints = replace(hints, results=wrong_results(case, failure))
    found = Reducer(
        oracle, facts, hints=hints, suspects=suspects.of, wrong_results=lambda one: run.wrong_results(one, way),
        say=means.say,
    ).guess()  # fmt: skip
    return Guessed(oracle.best, suspects.first) if found else None


class _Suspects:
    """Operators at which wrong numbers begin; what was found first is of the largest Case."""

    def __init__(self, run: _Run, way: Way, known: Diverging | None = None) -> None:
        self._run = run
        self._way = way
        self._looked = known is not None
        self.first = known

    def of(self, case: Case) -> tuple[str, ...]:
        found = self._run.diverging(case, self._way)
        self.first, self._looked = (self.first if self._looked else found), True
        return (found.culprit.name,) if found and found.culprit else ()

    def or_of(self, case: Case) -> Diverging | None:
        """What was found; where nobody looked, in this Case."""
        return self.first if self._looked else self._run.diverging(case, self._way)


def _of_inner(run: _Run, case: Case, way: Way, hints: Hints, facts: Facts | None) -> Reduced:
    """Of the graph before AOTAutograd no script can be written; of the operators after it, one often can."""
    found = run.flat(flattened(case), way.home)
    if found is None:
        found = run.reduce(case, way, hints, facts)
        found = run.flat(flattened(found.case), way.home) or found
    return found


def _smaller(first: Reduced, second: Reduced | None) -> Reduced:
    if second is None or operators(second.case.graph) >= operators(first.case.graph):
        return replace(first, judged=max(first.judged, second.judged if second else 0))
    return second


@dataclass(frozen=True)
class _Run:
    failure: Failure
    means: Means
    before: int  # judgements that were made already

    def reduce(self, case: Case, way: Way, hints: Hints, facts: Facts | None = None) -> Reduced:
        means, state = self.means, _State(self.means)
        if way.form is Form.BACKEND:  # a body that Dynamo cannot compile again may be what stands in the way
            plain = replace(way, form=Form.COMPILE)
            flat = next((c for c in inlined(case) if self._fails(c, plain)), None)
            case, way = (case, way) if flat is None else (flat, plain)

        oracle = self.oracle(case, way, state)
        suspects = _Suspects(self, way, means.diverging)
        hints = replace(hints, results=self.wrong_results(case, way))
        known = from_graph(case).known_better(facts) if facts is not None else probe(case, means, way.home)
        best = Reducer(
            oracle, known, hints=hints, suspects=suspects.of, width=means.jobs, say=state.say,
            settled=lambda settled: means.settled(settled, way),
        ).reduce()  # fmt: skip
        complete = not means.stopped() and time.monotonic() < means.until and not oracle.unknown
        counts = oracle.counted, oracle.judged_to_smallest
        way = self._plainer(best, way)
        if best.check is not None and not means.stopped():
            best = with_tolerance(best, means.bench.try_case(best, way.home, way.form, data=way.data))
        return Reduced(best, *counts, way, complete, suspects.or_of(best))

    def oracle(self, case: Case, way: Way, state: _State) -> Oracle:
        """Make an oracle that judges Cases in this way."""
        means = self.means

        def judge(cases: Sequence[Case]) -> list[Match]:
            return repeatedly(cases, means.chance().repeats, judge_once)

        def judge_once(cases: Sequence[Case], attempt: int) -> list[Match]:
            if not means.stopped():
                means.pause(oracle.best, way)
            if means.stopped():
                return [Match.UNKNOWN] * len(cases)
            state.show(oracle)
            tried = means.bench.try_cases(cases, way.home, way.form, data=way.data, attempt=attempt)
            return [one.matches(self.failure) for one in tried]

        def key(candidate: Case) -> str | None:
            try:
                return render(candidate, way.form, data=way.data).source
            except CannotRender:
                return None

        def smaller(candidate: Case, judged: int) -> None:
            means.say(f"down to {counted(candidate)} after {judged} judgement{'s' * (judged != 1)}")

        oracle = Oracle(
            judge, key, case, means.until, means.stopped, smaller, lambda better: means.better(better, way),
            lambda: means.bench.judged - self.before - means.aside(),
        )  # fmt: skip
        return oracle

    def _plainer(self, best: Case, way: Way) -> Way:
        """What is left may no longer need the values, or the form, that the whole needed."""
        if way.data and self._fails(best, replace(way, data=False)):
            way = replace(way, data=False)
        if way.form is Form.BACKEND and self._fails(best, replace(way, form=Form.COMPILE)):
            way = replace(way, form=Form.COMPILE)
        return way

    def wrong_results(self, case: Case, way: Way) -> tuple[str, ...]:
        """Of a Case that was judged already: the answer is remembered."""
        if case.check is None or case.phase.backward or self.means.stopped():
            return ()
        failure = self.means.bench.try_case(case, way.home, way.form, data=way.data).outcome.failure
        return wrong_results(case, failure) if failure else ()

    def diverging(self, case: Case, way: Way) -> Diverging | None:
        """Of wrong numbers in a forward: the operator at which they begin."""
        if case.check is None or case.phase.backward or way.form is not Form.COMPILE or self.means.stopped():
            return None

        def judge(opened: Case) -> Tried:
            changes = ("every intermediate value returned",)
            return self.means.bench.try_cases([opened], way.home, way.form, data=way.data, changes=changes)[0]

        self.means.say("looking for the first operator whose result is wrong")
        found = divergence.find(case, judge)
        if found is not None and found.culprit is not None:
            self.means.say(f"{found.culprit.name} is the first of {len(found.wrong)} results that are wrong")
        return found

    def _fails(self, case: Case, way: Way) -> bool:
        if self.means.stopped():
            return False
        tried = self.means.bench.try_cases([case], way.home, way.form, data=way.data)[0]
        return same_failure(tried, self.failure)

    def flat(self, case: Case | None, home: Path) -> Reduced | None:
        """From the ATen graph, where that fails alike under torch.compile."""
        if case is None or time.monotonic() > self.means.until or self.means.stopped():
            return None
        self.means.say(f"trying its {counted(case)} after AOTAutograd as a program")
        way = Way(Form.COMPILE, False, home)
        tried = self.means.bench.try_cases([case], way.home, way.form)[0]
        if not same_failure(tried, self.failure):
            return None
        return self.reduce(case, way, Hints(None, tried.outcome.noted))


def with_tolerance(case: Case, tried: Tried) -> Case:
    """What the script allows lies between the noise that was measured and the error."""
    if case.check is None or tried.outcome.failure is None:
        return case
    rows = told.read(tried.outcome.failure.text)
    # What the larger Case needed says nothing of this one: torch.testing's own tolerances may do again.
    rtol, atol = told.tolerance(rows) or (None, None) if rows else (case.check.rtol, case.check.atol)
    nans = any(row.nans for row in rows) if rows else case.check.nans
    return replace(case, check=replace(case.check, rtol=rtol, atol=atol, nans=nans))


class _State:
    """What is being tried, how far it has come, and how long it may still take."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._trying = ""
        self._show = status_of(means.say)

    def say(self, text: str) -> None:
        self._trying = text
        self._means.say(text)

    def show(self, oracle: Oracle) -> None:
        left = self._means.until - time.monotonic()
        budget = "" if left == float("inf") else f", at most {duration(left)} more"
        self._show(f"{self._trying}: {counted(oracle.best)} left, {oracle.counted} judged{budget}")


def probe(case: Case, means: Means, home: Path) -> Facts:
    """Facts of every value: from the graph, and from one eager run where that succeeds."""
    known = from_graph(case)
    seen = _run_probe(means, home)
    tensors, numbers = dict(known.tensors), dict(known.numbers)
    inputs = {n.name for n in case.graph.placeholders}
    for name, row in seen.items():
        if name in inputs:
            continue
        if "number" in row:
            numbers[name] = row["number"]
        else:
            tensors[name] = _tensor(row, tensors.get(name))
    if case.by_nans:
        tensors = {name: tensor.of_nans() for name, tensor in tensors.items()}
    return Facts(tensors, numbers)


def _tensor(row: Mapping[str, object], known: Tensor | None) -> Tensor:
    base = known or Tensor(str(row["dtype"]), (), ())
    return replace(
        base,
        dtype=str(row["dtype"]),
        shape=tuple(row["shape"]),  # type: ignore[arg-type]
        stride=tuple(row["stride"]),  # type: ignore[arg-type]
        device=str(row["device"]),
        low=row["low"],  # type: ignore[arg-type]
        high=row["high"],  # type: ignore[arg-type]
        requires_grad=bool(row["requires_grad"]),
        literal=tuple(row["literal"]),  # type: ignore[arg-type]
        distinct=bool(row["distinct"]),
        nans=bool(row.get("nans")),
    )


def _run_probe(means: Means, home: Path) -> dict[str, dict[str, object]]:
    """Under guard, as all that runs the user's graph: it has limits, and goes when this process does."""
    environment = {**with_torchsleuth(means.environment, means.path), "TORCH_COMPILE_DISABLE": "1"}
    with tempfile.TemporaryDirectory(prefix="torchsleuth-probe-") as place:
        command = (means.python, "-m", "torchsleuth.reduce.probe", str(home.resolve()))
        output = Path(place) / "said.txt"
        limits = Limits(_PROBE_SECONDS, default_memory_limit())
        launch = Launch(command, environment, place, str(output), limits, str(Path(place) / "ending.json"))
        process = means.bench.engines.start(launch)
        while not process.wait(_LOOK_EVERY) and not means.stopped():
            pass
        process.stop()
        process.wait()
        lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((found for found in map(_table, reversed(lines)) if found), {})


def _table(line: str) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
