"""The oracle: what was not judged is neither a pass nor a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from toys import chain, targets

from torchsleuth.case import graph_text
from torchsleuth.case.model import Case
from torchsleuth.judge.match import Match
from torchsleuth.reduce.oracle import Oracle, OutOfBudget


def oracle(*answers: Match, stopped: Sequence[bool] = (), asked: list[Case] | None = None) -> Oracle:
    """An oracle whose judge gives these answers, one after the other."""
    left, stops = iter(answers), iter(stopped)

    def judge(cases: Sequence[Case]) -> list[Match]:
        if asked is not None:
            asked.extend(cases)
        return [next(left) for _ in cases]

    return Oracle(judge, lambda c: graph_text.write(c.graph), chain(6), stopped=lambda: next(stops, False))


def test_what_gives_no_answer_is_asked_once_more() -> None:
    one = oracle(Match.UNKNOWN, Match.SAME)
    assert one.fails(chain(3))
    assert one.unknown == 0


def test_what_gives_none_again_is_passed_over_and_counted() -> None:
    asked: list[Case] = []
    one = oracle(Match.UNKNOWN, Match.UNKNOWN, asked=asked)
    assert not one.fails(chain(3))
    assert one.unknown == 1
    assert len(asked) == 2
    assert targets(one.best) == ["sin"] * 6


def test_what_was_cut_short_is_never_remembered() -> None:
    one = oracle(Match.UNKNOWN, stopped=[False, True])
    with pytest.raises(OutOfBudget):
        one.fails(chain(3))
    assert one.known == {}


@pytest.mark.parametrize("match", [Match.OTHER, Match.INVALID, Match.PASSED])
def test_another_answer_refuses_the_candidate(match: Match) -> None:
    one = oracle(match)
    assert not one.fails(chain(3))
    assert one.unknown == 0
