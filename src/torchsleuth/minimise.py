"""Reducing one Case with a real Judge: probe it, search, and hand back the smallest that fails in the same way."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import CannotRender, Form, render
from torchsleuth.judge.bench import Bench, Tried
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.outcome import Verdict
from torchsleuth.locate import divergence
from torchsleuth.reduce.facts import Facts, from_graph
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Reducer, counted
from torchsleuth.referee import told

Say = Callable[[str], None]
_PROBE_SECONDS = 120.0


@dataclass(frozen=True)
class Means:
    """What reducing needs besides the Case."""

    bench: Bench
    home: Path  # where the Case stands
    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    jobs: int
    budget: float
    stopped: Callable[[], bool]
    say: Say


@dataclass(frozen=True)
class Reduced:
    case: Case
    judged: int
    judged_to_smallest: int


def same_failure(tried: Tried, failure: Failure) -> bool:
    """Whether a judged Case fails as the program did."""
    outcome = tried.outcome
    if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
        return False
    if failure.kind in (Kind.CRASH, Kind.HANG):
        known = failure.fingerprint.error not in ("crash", "hang")
        return outcome.failure.kind is failure.kind and (not known or outcome.fails_like(failure.fingerprint))
    if failure.kind is Kind.ACCURACY:
        # The referee tells a nan from another value, which the assertion of the finished script does not.
        return outcome.failure.kind is failure.kind and outcome.failure.fingerprint == failure.fingerprint
    if failure.kind is Kind.OUT_OF_MEMORY:
        return outcome.failure.kind is Kind.OUT_OF_MEMORY
    return outcome.fails_like(failure.fingerprint)


def reduce_case(case: Case, failure: Failure, form: Form, data: bool, named: str | None, means: Means) -> Reduced:
    def judge(cases: Sequence[Case]) -> list[bool]:
        return [same_failure(t, failure) for t in means.bench.try_cases(cases, means.home, form, data=data)]

    def key(candidate: Case) -> str | None:
        try:
            return render(candidate, form, data=data).source
        except CannotRender:
            return None

    def smaller(candidate: Case, judged: int) -> None:
        means.say(f"down to {counted(candidate)} after {judged} judgement{'s' * (judged != 1)}")

    before = means.bench.judge.judged
    deadline = time.monotonic() + means.budget
    oracle = Oracle(judge, key, case, deadline, means.stopped, smaller, lambda: means.bench.judge.judged - before)
    start = key(case)
    facts = probe(case, means)
    suspects = diverging(case, failure, form, data, means)
    reducer = Reducer(oracle, facts, named=named, suspects=suspects, width=means.jobs, say=means.say)
    assert start is not None  # it was judged in this form a moment ago
    best = reducer.reduce()
    counts = oracle.counted, oracle.judged_to_smallest
    if best.check is not None:
        best = with_tolerance(best, means.bench.try_case(best, means.home, form, data=data))
    return Reduced(best, *counts)


def with_tolerance(case: Case, tried: Tried) -> Case:
    """What the script allows lies between the noise that was measured and the error."""
    if case.check is None or tried.outcome.failure is None:
        return case
    limits = told.tolerance(told.read(tried.outcome.failure.text))
    return case if limits is None else replace(case, check=replace(case.check, rtol=limits[0], atol=limits[1]))


def diverging(case: Case, failure: Failure, form: Form, data: bool, means: Means) -> list[str]:
    """Of wrong numbers in a forward: the operator at which they begin."""
    if failure.kind is not Kind.ACCURACY or case.phase.backward or form is not Form.COMPILE:
        return []

    def judge(opened: Case) -> Failure | None:
        return means.bench.try_case(opened, means.home, form, data=data).outcome.failure

    means.say("looking for the first operator whose result is wrong")
    found = divergence.find(case, judge)
    if found is None or found.culprit is None:
        return []
    means.say(f"{found.culprit.name} is the first of {len(found.wrong)} results that are wrong")
    return [found.culprit.name]


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
        literal=tuple(row["literal"]),  # type: ignore[arg-type]
    )


def _run_probe(means: Means) -> dict[str, dict[str, object]]:
    environment = {**with_torchsleuth(means.environment, means.path), "TORCH_COMPILE_DISABLE": "1"}
    try:
        done = subprocess.run(
            [means.python, "-m", "torchsleuth.reduce.probe", str(means.home)],
            capture_output=True, text=True, env=environment, timeout=_PROBE_SECONDS, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}
