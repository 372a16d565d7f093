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
from torchsleuth.judge.match import Match
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
    def judge(attempts: Sequence[int]) -> list[Match]:
        tried = bench.try_again(CASE, place, Form.COMPILE, attempts)
        return [one.matches(FAILURE) for one in tried]

    return measure(judge)


@pytest.mark.parametrize("seed", range(5))
def test_a_failure_in_one_of_three_runs_is_reduced_to_what_it_needs(tmp_path: Path, seed: int) -> None:
    judged = bench(tmp_path, seed)
    chance = seen(judged, tmp_path)
    assert chance.flaky, "eight judgements of a failure in one of three disagree with these seeds"
    assert chance.failed >= 3
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


def test_a_rate_is_told_with_its_interval() -> None:
    assert Chance(3, 8).sentence == (
        "Flaky: it failed in 3 of 8 runs; the rate lies between 14% and 69% (95 % confidence)."
    )
    low, high = Chance(1, 8).interval
    assert low < 0.02 + 0.01, "a failure of 2 % may show once in 8"
    assert high > 0.4


def sampled(*answers: Match) -> Chance:
    """The chance, where the runs that follow each other end like this; after them each passes."""

    def judge(attempts: Sequence[int]) -> list[Match]:
        return [answers[n] if n < len(answers) else Match.PASSED for n in attempts]

    return measure(judge)


def test_one_failure_in_eight_is_asked_further() -> None:
    assert sampled(Match.SAME) == Chance(1, 48)
    assert sampled(Match.SAME, Match.SAME, Match.SAME) == Chance(3, 8)


@pytest.mark.parametrize("other", [Match.UNKNOWN, Match.INVALID, Match.OTHER])
def test_runs_that_say_nothing_of_it_are_not_counted_as_passing(other: Match) -> None:
    assert sampled(Match.SAME, Match.SAME, Match.SAME, other, other, other) == Chance(3, 5)


def test_no_further_sample_is_taken_once_runs_are_cut_short() -> None:
    assert sampled(Match.SAME, *[Match.UNKNOWN] * 40).runs == 1


def test_what_failed_once_is_not_asked_again() -> None:
    asked: list[tuple[str, int]] = []

    def judge(items: Sequence[str], attempt: int) -> list[Match]:
        asked.extend((item, attempt) for item in items)
        fails = [item == "a" or (item == "b" and attempt == 1) for item in items]
        return [Match.SAME if one else Match.PASSED for one in fails]

    assert repeatedly(["a", "b", "c"], 3, judge) == [Match.SAME, Match.SAME, Match.PASSED]
    assert asked == [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("c", 2)]
