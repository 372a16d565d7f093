"""Workarounds: the smallest that helps the reduced Case and the user's own, in few judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from torchsleuth.case.failure import Kind
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Backend, Case, Level, Storage, Surroundings, Tensor
from torchsleuth.case.program import render
from torchsleuth.judge.judgement import Judged
from torchsleuth.judge.match import Match
from torchsleuth.locate import workarounds
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.operators.names import aten_name

VALUE = Value("torch.float32", (4,), (1,))


PLAIN = Surroundings()


def case(*targets: str, surroundings: Surroundings = PLAIN) -> Case:
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=VALUE)]
    for i, target in enumerate(targets):
        nodes.append(Node(f"n{i}", Op.CALL_FUNCTION, target, (Ref(nodes[-1].name),), value=VALUE))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    tensor = Tensor("torch.float32", (4,), (1,))
    return Case(Level.DYNAMO, Graph(tuple(nodes)), (tensor,), storages=(Storage(0),), surroundings=surroundings)


SMALL, WHOLE = case("torch.cummin"), case("torch.sin", "torch.cummin", "torch.cos")


class Judge:
    """Passes scripts that hold one of `cures`, each a set of texts that must all be there."""

    def __init__(self, *cures: set[str]) -> None:
        self.cures = cures
        self.asked: list[str] = []

    def __call__(self, cases: Sequence[Case], changes: Sequence[str]) -> list[Judged]:
        assert len(cases) == len(changes)
        sources = [render(one).source for one in cases]
        self.asked += sources
        return [judged(any(all(text in source for text in cure) for cure in self.cures)) for source in sources]


def judged(passes: bool) -> Judged:
    return Judged(Match.PASSED if passes else Match.SAME)


def text_of(found: workarounds.Helps | None) -> str | None:
    return found.text if found is not None else None


def find(
    small: Judge, whole: Judge | None = None, *, component: Component = Component.INDUCTOR, kind: Kind = Kind.CRASH
) -> str | None:
    found = workarounds.find(SMALL, WHOLE, kind, component, "aten.cummin.default", None, small, whole or small)
    return text_of(found)


def test_one_switch_of_many_is_found_in_few_steps() -> None:
    judge, own = Judge({"config.inplace_buffers = False"}), Judge({"config.inplace_buffers = False"})
    assert find(judge, own) == "torch._inductor.config.inplace_buffers = False"
    assert len(judge.asked) <= 12
    [confirmed] = own.asked
    assert "torch.sin" in confirmed, "it was judged on the user's own Case"
    compile(confirmed, "repro.py", "exec")


def test_where_no_switch_helps_that_costs_three_judgements() -> None:
    judge = Judge()
    assert find(judge) is None
    assert len(judge.asked) == 3, "all switches, the late passes, the operator"


def test_two_switches_that_are_needed_together() -> None:
    cure = {"config.pattern_matcher = False", "config.max_fusion_size = 1"}
    judge = Judge(cure)
    found = find(judge)
    assert found is not None
    assert set(found.splitlines()) == {f"torch._inductor.{line}" for line in cure}
    assert len(judge.asked) <= 22


def test_an_operator_is_left_to_eager_where_no_switch_helps() -> None:
    found = find(Judge({"lowering.make_fallback(torch.ops.aten.cummin)"}))
    assert found is not None
    assert found.splitlines()[-1] == "lowering.make_fallback(torch.ops.aten.cummin)"


def test_what_helps_the_reduced_case_alone_is_not_said() -> None:
    small = Judge({"config.inplace_buffers = False"}, {"make_fallback(torch.ops.aten.cummin)"})
    own = Judge({"make_fallback(torch.ops.aten.cummin)"})
    found = find(small, own)
    assert found is not None
    assert "make_fallback" in found
    assert len(own.asked) == 2


def test_a_setting_of_the_users_own_comes_first() -> None:
    now = Surroundings(Backend(mode="max-autotune"), configs=(("torch._inductor.config", "freezing", True),))
    small, whole = case("torch.cummin", surroundings=now), case("torch.sin", "torch.cummin", surroundings=now)

    def either(cases: Sequence[Case], _: Sequence[str]) -> list[Judged]:
        return [judged(not one.surroundings.configs or one.surroundings.backend.mode is None) for one in cases]

    def mode(cases: Sequence[Case], _: Sequence[str]) -> list[Judged]:
        return [judged(one.surroundings.backend.mode is None) for one in cases]

    def find_with(judge: workarounds.Judge) -> str | None:
        return text_of(workarounds.find(small, whole, Kind.CRASH, Component.INDUCTOR, None, None, judge, judge))

    assert find_with(either) == "remove `torch._inductor.config.freezing = True`"
    assert find_with(mode) == "remove `mode='max-autotune'` from torch.compile"


@pytest.mark.parametrize("match", [Match.UNKNOWN, Match.OTHER, Match.INVALID])
def test_what_was_not_seen_to_pass_does_not_help(match: Match) -> None:
    def judge(cases: Sequence[Case], _: Sequence[str]) -> list[Judged]:
        return [Judged(match) for _ in cases]

    assert workarounds.find(SMALL, WHOLE, Kind.CRASH, Component.INDUCTOR, None, None, judge, judge) is None


def test_what_can_be_pasted_is_told_from_what_is_a_change() -> None:
    assert workarounds.is_code("torch._inductor.config.inplace_buffers = False")
    assert not workarounds.is_code("remove `torch._inductor.config.freezing = True`")
    assert not workarounds.is_code("torch.compile(..., dynamic=False)")
    assert not workarounds.is_code("export TORCHINDUCTOR_FX_GRAPH_CACHE=0")


def test_static_shapes_where_they_were_dynamic() -> None:
    tensor = Tensor("torch.float32", (4,), (1,), dynamic=(0,))
    small = replace(SMALL, inputs=(tensor,))
    judge = Judge({"dynamic=False"})
    found = workarounds.find(small, small, Kind.COMPILE_ERROR, Component.INDUCTOR, None, None, judge, judge)
    assert text_of(found) == "torch.compile(..., dynamic=False)"
    assert "mark_dynamic" not in judge.asked[-1]


def test_a_switch_that_this_torch_does_not_have_spoils_no_other() -> None:
    asked = render(workarounds.together(workarounds.switch_groups(Kind.CRASH, Component.INDUCTOR)[0]).apply(SMALL))
    body = asked.source.split("def f(")[0]
    assert body.count("except AttributeError:") == body.count("try:") >= 10


@pytest.mark.parametrize("component", [Component.DYNAMO, Component.BACKEND, Component.UNKNOWN])
def test_nothing_of_inductors_is_tried_on_others(component: Component) -> None:
    judge = Judge()
    assert find(judge, component=component) is None
    assert judge.asked == []


def test_the_last_resort_is_the_fastest_backend_that_was_seen_to_pass() -> None:
    rungs = [
        Rung("eager", Match.PASSED, ""),
        Rung("aot_eager", Match.PASSED, ""),
        Rung("aot_eager_decomp_partition", Match.OTHER, ""),
    ]
    assert workarounds.other_backend(rungs) == "aot_eager"
    assert workarounds.other_backend(rungs[2:]) is None


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("aten.cummin.default", "cummin"),
        ("torch.ops.aten.cumsum.default", "cumsum"),
        ("torch.relu_", "relu"),
        ("relu", "relu"),
        ("torch._C._nn.linear", "linear"),
        ("<lambda>", ""),
        ("torch.ops.mylib.foo.default", ""),
    ],
)
def test_names_of_operators(target: str, name: str) -> None:
    assert aten_name(target) == name
