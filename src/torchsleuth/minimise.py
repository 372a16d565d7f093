"""Reducing one Case with a real Judge: probe it, search, and hand back the smallest that fails in the same way."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import CannotRender, Form, render
from torchsleuth.judge.bench import Bench, Tried
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.outcome import Verdict
from torchsleuth.reduce.chance import ALWAYS, Chance, repeatedly
from torchsleuth.reduce.facts import Facts, from_graph
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Reducer, counted
from torchsleuth.write.progress import duration, status_of

Say = Callable[[str], None]
_PROBE_SECONDS = 120.0
_LOOK_EVERY = 0.2
_SHORT = 8000  # characters of a script that may be the neighbour of a reduced one


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
    better: Callable[[Case], None] = lambda case: None  # told of each Case that is smaller or simpler and fails


@dataclass(frozen=True)
class Reduced:
    case: Case
    judged: int
    judged_to_smallest: int
    complete: bool = True  # it ended because nothing was left to try
    passing: tuple[str, ...] = ()  # scripts that passed, short ones


def same_failure(tried: Tried, failure: Failure) -> bool:
    """Whether a judged Case fails as the program did."""
    outcome = tried.outcome
    if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
        return False
    if failure.kind in (Kind.CRASH, Kind.HANG):
        known = failure.fingerprint.error not in ("crash", "hang")
        return outcome.failure.kind is failure.kind and (not known or outcome.fails_like(failure.fingerprint))
    if failure.kind is Kind.OUT_OF_MEMORY:
        return outcome.failure.kind is Kind.OUT_OF_MEMORY
    return outcome.fails_like(failure.fingerprint)


def reduce_case(
    case: Case,
    failure: Failure,
    form: Form,
    data: bool,
    named: str | None,
    means: Means,
    facts: Facts | None = None,  # None: found out by a probe
) -> Reduced:
    state = _State(means)
    passing: list[str] = []

    def judge(cases: Sequence[Case]) -> list[bool]:
        return repeatedly(cases, means.chance().repeats, judge_once)

    def judge_once(cases: Sequence[Case], attempt: int) -> list[bool]:
        if means.stopped():
            return [False] * len(cases)
        state.show(oracle)
        tried = means.bench.try_cases(cases, means.home, form, data=data, attempt=attempt)
        for one in tried:
            if one.outcome.verdict is Verdict.PASSED and one.rendering and len(one.rendering.source) < _SHORT:
                passing.append(one.rendering.source)
        return [same_failure(one, failure) for one in tried]

    def key(candidate: Case) -> str | None:
        try:
            return render(candidate, form, data=data).source
        except CannotRender:
            return None

    def smaller(candidate: Case, judged: int) -> None:
        means.say(f"down to {counted(candidate)} after {judged} judgement{'s' * (judged != 1)}")

    before = means.bench.judged
    oracle = Oracle(
        judge, key, case, means.until, means.stopped, smaller, means.better, lambda: means.bench.judged - before
    )
    best = Reducer(oracle, facts or probe(case, means), named=named, width=means.jobs, say=state.say).reduce()
    complete = not means.stopped() and time.monotonic() < means.until
    return Reduced(best, oracle.counted, oracle.judged_to_smallest, complete, tuple(passing))


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


def probe(case: Case, means: Means) -> Facts:
    """Facts of every value: from the graph, and from one eager run where that succeeds."""
    known = from_graph(case)
    seen = _run_probe(means)
    tensors, numbers = dict(known.tensors), dict(known.numbers)
    inputs = {n.name for n in case.graph.placeholders}
    for name, row in seen.items():
        if name in inputs:
            continue
        if "number" in row:
            numbers[name] = row["number"]
        else:
            tensors[name] = _tensor(row, tensors.get(name))
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
    )


def _run_probe(means: Means) -> dict[str, dict[str, object]]:
    """Under guard, as all that runs the user's graph: it has limits, and goes when this process does."""
    environment = {**with_torchsleuth(means.environment, means.path), "TORCH_COMPILE_DISABLE": "1"}
    with tempfile.TemporaryDirectory(prefix="torchsleuth-probe-") as place:
        command = (means.python, "-m", "torchsleuth.reduce.probe", str(means.home.resolve()))
        output = Path(place) / "said.txt"
        limits = Limits(_PROBE_SECONDS, default_memory_limit())
        process = Guarded(Launch(command, environment, place, str(output), limits, str(Path(place) / "ending.json")))
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
