"""The ladder, asked of toy judges: which component the first failing rung names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, of_signal
from torchsleuth.case.ir import Graph
from torchsleuth.case.model import Backend, Case, Code, Level, Surroundings, Tensor
from torchsleuth.case.program import Form
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.locate.ladder import PLAIN_PARTITIONER_DECOMPOSED, Component, Ladder, climb

SEEN = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("RuntimeError", "no such kernel"))
OTHER = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("KeyError", "something else"))
PASSES = Outcome(Verdict.PASSED)
FAILS = Outcome(Verdict.FAILED, SEEN)
MINE = Backend("mine", False, code=Code("backend", "mine", "def mine(gm, inputs): ..."))
TRAINED = Tensor("float32", (2,), (1,), requires_grad=True)


class ToyJudge:
    """Answers by the name of the backend, PASSED where nothing is said, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, Outcome]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, backends: Sequence[Backend]) -> list[list[Tried]]:
        self.asked += [b.name for b in backends]
        return [[Tried(self.answers.get(b.name, PASSES), Form.COMPILE, False)] for b in backends]


def climbed(
    answers: Mapping[str, Outcome] | None = None,
    backend: Backend | None = None,
    failure: Failure = SEEN,
    inputs: tuple[Tensor, ...] = (),
) -> tuple[Ladder, ToyJudge]:
    case = Case(Level.DYNAMO, Graph(()), inputs, surroundings=Surroundings(backend=backend or Backend()))
    judge = ToyJudge(answers or {})
    return climb(case, failure, judge), judge


@pytest.mark.parametrize(
    ("failing", "component"),
    [
        (("eager", "aot_eager", "aot_eager_decomp_partition"), Component.DYNAMO),
        (("aot_eager", "aot_eager_decomp_partition"), Component.AOT),
        (("aot_eager_decomp_partition",), Component.DECOMPOSITION),
        ((), Component.INDUCTOR),
    ],
)
def test_the_first_failing_rung_names_the_component(failing: Sequence[str], component: Component) -> None:
    ladder, _ = climbed(dict.fromkeys(failing, FAILS))
    assert ladder.component is component
    assert [(r.backend, r.fails) for r in ladder.rungs] == [
        (name, name in failing) for name in ("eager", "aot_eager", "aot_eager_decomp_partition")
    ] + [("inductor", True)]


def test_the_programs_own_backend_is_not_judged_again() -> None:
    ladder, judge = climbed()
    assert judge.asked == ["eager", "aot_eager", "aot_eager_decomp_partition"]
    assert ladder.rungs[-1].said == "RuntimeError: no such kernel"


@pytest.mark.parametrize(
    ("failing", "component"),
    [
        (("aot_eager",), Component.PARTITIONER),
        (("aot_eager", "aot_eager_default_partitioner"), Component.AOT),
        (("aot_eager_decomp_partition",), Component.PARTITIONER),
        (("aot_eager_decomp_partition", "aot_eager_decomp"), Component.DECOMPOSITION),
        (("eager",), Component.DYNAMO),
        ((), Component.INDUCTOR),
    ],
)
def test_in_training_it_is_the_partitioner_where_the_plain_one_passes(
    failing: Sequence[str], component: Component
) -> None:
    assert climbed(dict.fromkeys(failing, FAILS), inputs=(TRAINED,))[0].component is component


def test_a_plain_partitioner_that_could_not_be_judged_blames_nobody_else() -> None:
    answers = {"aot_eager": FAILS, "aot_eager_default_partitioner": Outcome(Verdict.UNKNOWN)}
    assert climbed(answers, inputs=(TRAINED,))[0].component is Component.AOT


def test_the_partitioner_is_asked_for_only_where_it_may_be_to_blame() -> None:
    assert climbed({"aot_eager": FAILS})[1].asked[-1] == "aot_eager_decomp_partition"
    assert climbed({"eager": FAILS}, inputs=(TRAINED,))[1].asked[-1] == "aot_eager_decomp_partition"
    assert climbed({"aot_eager": FAILS}, inputs=(TRAINED,))[1].asked[-1] == "aot_eager_default_partitioner"


def test_the_partitioners_backend_is_torch_alone() -> None:
    code = PLAIN_PARTITIONER_DECOMPOSED.code
    assert code is not None
    assert code.stands_alone
    compile(code.source, "backend", "exec")


@pytest.mark.parametrize(
    "unknown",
    [
        Outcome(Verdict.UNKNOWN, reason="cancelled"),
        Outcome(Verdict.INVALID, reason="eager itself fails"),
        Outcome(Verdict.FAILED, None),
    ],
)
def test_a_rung_that_could_not_be_judged_blames_nobody(unknown: Outcome) -> None:
    """Neither what stands on it nor what is above: the failure may begin on that rung."""
    for failing in ("aot_eager", "aot_eager_decomp_partition", "inductor"):
        ladder, _ = climbed({"eager": unknown, failing: FAILS})
        assert ladder.component is Component.UNKNOWN
        assert ladder.rungs[0].fails is None
        assert ladder.rungs[0].said.startswith(unknown.verdict.value)


def test_a_rung_that_fails_in_another_way_neither_fails_nor_passes() -> None:
    ladder, _ = climbed({"aot_eager": Outcome(Verdict.FAILED, OTHER)})
    assert ladder.component is Component.UNKNOWN
    assert [(r.backend, r.match) for r in ladder.rungs] == [
        ("eager", Match.PASSED),
        ("aot_eager", Match.OTHER),
        ("aot_eager_decomp_partition", Match.PASSED),
        ("inductor", Match.SAME),
    ]


def test_a_rung_of_a_flaky_failure_passes_only_if_every_run_does() -> None:
    case = Case(Level.DYNAMO, Graph(()), ())
    runs = [
        [Tried(o, Form.COMPILE, False) for o in (PASSES, PASSES, last)]
        for last in (FAILS, Outcome(Verdict.UNKNOWN), PASSES)
    ]
    ladder = climb(case, SEEN, lambda backends: runs[: len(backends)])
    assert [rung.match for rung in ladder.rungs[:3]] == [Match.SAME, Match.UNKNOWN, Match.PASSED]


def test_a_custom_backend_that_fails_in_its_own_way_is_to_blame() -> None:
    """Another failure below is not the program's: it says nothing about a backend that need not stand on that rung."""
    ladder, _ = climbed({"aot_eager": Outcome(Verdict.FAILED, OTHER)}, MINE)
    assert ladder.component is Component.BACKEND
    assert [(r.backend, r.fails) for r in ladder.rungs][1:] == [
        ("aot_eager", None),
        ("aot_eager_decomp_partition", False),
        ("mine", True),
    ]
    assert ladder.rungs[1].said == OTHER.fingerprint.line


def test_a_custom_backend_is_innocent_where_a_rung_fails_alike() -> None:
    assert climbed({"eager": FAILS, "aot_eager": FAILS}, MINE)[0].component is Component.DYNAMO


@pytest.mark.parametrize(
    ("name", "below", "component"),
    [
        ("eager", [], Component.DYNAMO),
        ("aot_eager", ["eager"], Component.AOT),
        ("aot_eager_decomp_partition", ["eager", "aot_eager"], Component.DECOMPOSITION),
        ("cudagraphs", ["eager", "aot_eager", "aot_eager_decomp_partition"], Component.BACKEND),
    ],
)
def test_a_program_on_a_lower_rung_climbs_only_up_to_it(name: str, below: list[str], component: Component) -> None:
    ladder, judge = climbed(backend=Backend(name))
    assert judge.asked == below
    assert ladder.component is component
    assert ladder.rungs[-1].backend == name


def test_a_function_named_like_a_rung_is_not_that_rung() -> None:
    ladder, judge = climbed(backend=Backend("eager", False, code=MINE.code))
    assert len(judge.asked) == 3
    assert ladder.component is Component.BACKEND


@pytest.mark.parametrize(
    ("number", "component"), [(11, Component.AOT), (6, Component.BACKEND)], ids=["the same signal", "another"]
)
def test_deaths_are_told_apart_by_their_signal(number: int, component: Component) -> None:
    death = Outcome(Verdict.FAILED, of_signal(number, Phase.RUN_FORWARD))
    ladder, _ = climbed({"aot_eager": death}, MINE, of_signal(11, Phase.RUN_FORWARD))
    assert ladder.component is component


def test_hangs_are_the_same_wherever_they_are() -> None:
    hang = Outcome(Verdict.FAILED, of_hang(Phase.COMPILE_FORWARD))
    assert climbed({"aot_eager": hang}, MINE, of_hang(Phase.RUN_FORWARD))[0].component is Component.AOT
