"""Passes are judged together where that still fails, and apart where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toys import chain, matches

from torchsleuth.case.ir import Op, Ref
from torchsleuth.case.model import Case
from torchsleuth.judge.match import Match
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
        lambda cases: matches(set(needed) <= set(c.surroundings.environment) for c in cases),
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
    oracle = Oracle(lambda cases: matches(True for _ in cases), lambda c: repr(c.surroundings), case)
    assert not Simplifier(oracle, 1, lambda _: None).round([lower("a")])
    full = replace(case, surroundings=replace(case.surroundings, environment={"a": "1"}))
    oracle = Oracle(lambda cases: matches(True for _ in cases), lambda c: repr(c.surroundings), full)
    assert Simplifier(oracle, 1, lambda _: None).round([lower("a")])


def _toggle(case: Case) -> Iterator[Case]:
    """Back and forth between two texts, for ever."""
    now = case.surroundings
    other = {"a": "2"} if now.environment.get("a") == "1" else {"a": "1"}
    yield replace(case, surroundings=replace(now, environment=other))


def _nothing_to_see(case: Case) -> Iterator[Case]:
    """Another Case of the same text."""
    yield replace(case, compile_id=case.compile_id + "x")


def test_passes_that_undo_each_other_or_change_nothing_come_to_an_end():
    case = chain(1)
    case = replace(case, surroundings=replace(case.surroundings, environment={"a": "1"}))
    for propose in (_toggle, _nothing_to_see):
        oracle = Oracle(lambda cases: matches(True for _ in cases), lambda c: repr(c.surroundings), case)
        simplifier = Simplifier(oracle, 2, lambda _: None)
        for _ in range(3):
            simplifier.round([Pass("endless", "endless", propose), Pass("again", "again", propose)])
        assert oracle.judged <= 2


def test_a_pass_that_was_refused_is_asked_again_when_other_results_are_wanted():
    case = chain(2)
    asked: list[str] = []

    def without_variable(case: Case) -> Iterator[Case]:
        asked.append(repr(case.graph.output.args))
        yield replace(case, surroundings=replace(case.surroundings, environment={"a": "1"}))

    def fails(cases: Sequence[Case]) -> list[Match]:
        return matches(c.graph.output.args == ((Ref("op_0"),),) for c in cases)

    oracle = Oracle(fails, lambda c: repr((c.graph.output, c.surroundings)), case)
    simplifier = Simplifier(oracle, 1, lambda _: None)
    step = Pass("variable", "variable", without_variable)
    assert not simplifier.round([step])
    assert not simplifier.round([step])
    assert oracle.judged == 1, "in the same situation nothing is judged again"
    other = [replace(n, args=((Ref("op_0"),),)) if n.op is Op.OUTPUT else n for n in case.graph.nodes]
    oracle.accept(replace(case, graph=replace(case.graph, nodes=tuple(other))))
    assert simplifier.round([step])
    assert oracle.best.surroundings.environment == {"a": "1"}
