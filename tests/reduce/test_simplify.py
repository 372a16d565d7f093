"""Passes are judged together where that still fails, and apart where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toys import chain

from torchsleuth.case.model import Case
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.passes import Pass
from torchsleuth.reduce.simplify import Simplifier


def lower(key: str) -> Pass:
    """A pass that takes one environment variable away."""

    def propose(case: Case) -> Iterator[Case]:
        now = case.surroundings
        if key in now.environment:
            left = {k: v for k, v in now.environment.items() if k != key}
            yield replace(case, surroundings=replace(now, environment=left))

    return Pass(key, key, propose)


def simplified(names: str, needed: str) -> tuple[str, int]:
    case = chain(1)
    case = replace(case, surroundings=replace(case.surroundings, environment=dict.fromkeys(names, "1")))
    oracle = Oracle(
        lambda cases: [set(needed) <= set(c.surroundings.environment) for c in cases],
        lambda c: repr(c.surroundings),
        case,
    )
    Simplifier(oracle, 1, lambda _: None).round([lower(name) for name in names])
    return "".join(oracle.best.surroundings.environment), oracle.judged


def test_what_all_passes_propose_costs_one_judgement():
    assert simplified("abcdefgh", "") == ("", 1)


def test_one_that_is_needed_is_found_by_halves():
    left, judged = simplified("abcdefgh", "c")
    assert left == "c"
    assert judged <= 7


def test_nothing_is_lost_where_several_are_needed():
    left, _ = simplified("abcdefgh", "aceg")
    assert left == "aceg"


def test_a_round_says_whether_something_became_simpler():
    case = chain(1)
    oracle = Oracle(lambda cases: [True for _ in cases], lambda c: repr(c.surroundings), case)
    assert not Simplifier(oracle, 1, lambda _: None).round([lower("a")])
    full = replace(case, surroundings=replace(case.surroundings, environment={"a": "1"}))
    oracle = Oracle(lambda cases: [True for _ in cases], lambda c: repr(c.surroundings), full)
    assert Simplifier(oracle, 1, lambda _: None).round([lower("a")])
