"""The search alone: exact answers, few questions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from torchsleuth.reduce.search import minimise, shortest_prefix


def counting(needed):
    asked = []

    def test(sets):
        asked.extend(sets)
        return [set(needed) <= s for s in sets]

    return test, asked


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 60), st.data(), st.integers(1, 4))
def test_exactly_what_is_needed_is_left(count, data, width):
    needed = data.draw(st.sets(st.integers(0, count - 1)))
    test, _ = counting(needed)
    assert set(minimise(range(count), test, width=width)) == needed


@pytest.mark.parametrize(("needed", "most"), [({128, 384}, 45), ({64, 192, 320, 448}, 75), ({0, 511}, 45), ({300}, 30)])
def test_few_questions_for_512(needed, most):
    test, asked = counting(needed)
    assert set(minimise(range(512), test)) == needed
    assert len(asked) <= most


def test_what_succeeds_at_the_same_time_is_merged():
    """Four sets at once: fewer rounds than one at a time, because disjoint successes are taken together."""
    rounds = {}
    for width in (1, 4):
        test, _ = counting({300})
        times = []
        assert set(minimise(range(512), lambda sets, t=test, n=times: n.append(1) or t(sets), width=width)) == {300}
        rounds[width] = len(times)
    assert rounds[4] < rounds[1]


def test_a_merge_that_no_longer_fails_keeps_the_larger_success():
    """Either of two halves may go, not both."""
    left = minimise(range(8), lambda sets: [bool({0, 1} & s) and bool(s) for s in sets], width=2)
    assert len(left) == 1
    assert set(left) <= {0, 1}


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 40), st.data())
def test_nothing_single_can_be_left_out_of_the_answer(count, data):
    """Also when the failure is not monotone: any of several sets fails."""
    options = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), min_size=1, max_size=3))

    def fails(s):
        return any(o <= s for o in options)

    left = frozenset(minimise(range(count), lambda sets: [fails(s) for s in sets]))
    assert fails(left)
    assert not any(fails(left - {item}) for item in left)


@given(st.integers(1, 1000), st.data())
def test_the_shortest_prefix(length, data):
    first = data.draw(st.integers(1, length))
    asked = []

    def fails(n):
        asked.append(n)
        return n >= first

    assert shortest_prefix(length, fails) == first
    assert len(asked) <= length.bit_length()
