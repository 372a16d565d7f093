"""Failures that come and go: judged often enough, reduced rightly, and never called certain."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from journaled_reduction import CASE, FAILURE
from toys import targets

from torchsleuth.case.program import Form
from torchsleuth.investigate import minimise
from torchsleuth.judge.bench import Bench
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.reduce.chance import ALWAYS, Chance, measure, repeatedly
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.reducer import Hints


class FlakyJudge:
    """What calls relu and then tanh fails in one judgement of three."""

    jobs = 2

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        found = []
        for number, trial in enumerate(trials):
            relu, tanh = trial.source.find("torch.relu("), trial.source.find("torch.tanh(")
            fails = 0 <= relu < tanh and self._random.random() < 1 / 3
            found.append(Outcome(Verdict.FAILED, FAILURE) if fails else Outcome(Verdict.PASSED))
            if heard is not None:
                heard(number, found[-1])
        return found


def bench(place: Path, seed: int) -> Bench:
    judge = FlakyJudge(seed)
    return Bench(judge, place, python=sys.executable, environment={}, deadline=30.0, memory=Journal())  # type: ignore[arg-type]


def seen(bench: Bench, place: Path) -> Chance:
    def fails(attempts: Sequence[int]) -> list[bool]:
        tried = bench.try_again(CASE, place, Form.COMPILE, attempts)
        return [minimise.same_failure(one, FAILURE) for one in tried]

    return measure(fails)


@pytest.mark.parametrize("seed", range(5))
def test_a_failure_in_one_of_three_runs_is_reduced_to_what_it_needs(tmp_path: Path, seed: int) -> None:
    judged = bench(tmp_path, seed)
    chance = seen(judged, tmp_path)
    assert chance.flaky, "eight judgements of a failure in one of three disagree with these seeds"
    assert chance.runs == 8
    means = minimise.Means(
        judged, tmp_path, sys.executable, {}, (), 2, float("inf"), lambda: False, lambda _: None, lambda: chance
    )
    found = minimise.reduce_case(CASE, FAILURE, Form.COMPILE, False, Hints(), means, facts=from_graph(CASE))
    assert targets(found.case) == ["relu", "tanh"]


def test_judged_once_each_it_would_not_be(tmp_path: Path) -> None:
    ends = []
    for seed in range(5):
        judged = bench(tmp_path / str(seed), seed)
        means = minimise.Means(judged, tmp_path, sys.executable, {}, (), 2, float("inf"), lambda: False, lambda _: None)
        found = minimise.reduce_case(CASE, FAILURE, Form.COMPILE, False, Hints(), means, facts=from_graph(CASE))
        ends.append(targets(found.case))
    assert any(end != ["relu", "tanh"] for end in ends)


def test_how_often_is_often_enough() -> None:
    assert ALWAYS.repeats == 1
    assert not ALWAYS.flaky
    assert Chance(8, 8).repeats == 1
    assert Chance(4, 8).repeats == 6
    assert Chance(3, 9).repeats == 10
    assert Chance(1, 8).repeats == 12, "no more than can be waited for"
    assert Chance(4, 8).verifications(3) == 6
    assert Chance(7, 8).verifications(3) == 3
    assert Chance(3, 8).said == "It comes and goes: judged alone, it failed in 3 of 8 runs."


def test_what_failed_once_is_not_asked_again() -> None:
    asked: list[tuple[str, int]] = []

    def fails(items: Sequence[str], attempt: int) -> list[bool]:
        asked.extend((item, attempt) for item in items)
        return [item == "a" or (item == "b" and attempt == 1) for item in items]

    assert repeatedly(["a", "b", "c"], 3, fails) == [True, True, False]
    assert asked == [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("c", 2)]
