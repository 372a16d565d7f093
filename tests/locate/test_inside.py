"""The application to blame, found by a toy compiler whose list of applications is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from torchsleuth.diagnose.claim import ClaimKind
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match
from torchsleuth.locate import inside
from torchsleuth.locate.inside import Answer, Setting

PASSES = [Applied("pre_grad_passes", "group"), *(Applied("post_grad_passes", f"pass_{i}") for i in range(30))]
KERNELS = [*(Applied("lowering", f"aten.op_{i}.default") for i in range(6)), Applied("fusion", "a with b")]


class Compiler:
    """Applies a list; fails when `wrong` says so of what was applied, and otherwise when `breaks` does."""

    def __init__(
        self,
        would: Sequence[Applied],
        wrong: Callable[[set[int]], bool],
        *,
        raises: bool = False,
        breaks: Callable[[set[int]], bool] = lambda _: False,
    ) -> None:
        self.would, self.wrong, self.raises, self.breaks = would, wrong, raises, breaks
        self.asked: list[Setting] = []

    def __call__(self, settings: Sequence[Setting]) -> list[Answer]:
        self.asked += settings
        return [self._compile(setting) for setting in settings]

    def _compile(self, setting: Setting) -> Answer:
        let: set[int] = set()
        came_to: list[Applied] = []
        for number, one in enumerate(self.would):
            if one.stage not in setting.among or (
                (setting.first is None or len(came_to) < setting.first)
                and one.stage not in setting.without
                and len(came_to) != setting.but
                and one.name != setting.but_named
            ):
                let.add(number)
            if one.stage in setting.among:
                came_to.append(one)
            if self.raises and self.wrong(let):
                return self._answer(Match.SAME, came_to)
        fails = self.wrong(let)
        found = Match.SAME if fails else Match.OTHER if self.breaks(let) else Match.PASSED
        return self._answer(found, came_to)

    def _answer(self, found: Match, came_to: Sequence[Applied]) -> Answer:
        return Answer(found, tuple(came_to), Judgement(f"j{len(self.asked)}", "", found, Engine.WORKER))


@pytest.mark.parametrize("culprit", range(len(PASSES) + len(KERNELS)))
def test_any_single_application_is_named_within_twelve_judgements(culprit: int) -> None:
    would = [*PASSES, *KERNELS]
    compiler = Compiler(would, lambda let: culprit in let)
    found = inside.find(compiler)
    assert found is not None
    assert found.blamed == would[culprit]
    assert found.alone
    assert not found.all_of_name
    assert len(compiler.asked) <= 12
    assert len(set(compiler.asked)) == len(compiler.asked)


def test_what_the_compiler_was_doing_when_it_raised_is_guessed_first() -> None:
    compiler = Compiler([*PASSES, *KERNELS], lambda let: 33 in let, raises=True)
    found = inside.find(compiler, raises=True)
    assert found is not None
    assert found.blamed == KERNELS[2]
    assert len(compiler.asked) <= 5


def test_a_pass_is_to_blame_for_an_operator_that_only_it_puts_there() -> None:
    """Without its lowering there is no telling: eager's kernel does another thing."""
    compiler = Compiler([*PASSES, *KERNELS], lambda let: {5, 35} <= let, breaks=lambda let: 5 in let and 35 not in let)
    found = inside.find(compiler)
    assert found is not None
    assert found.blamed == PASSES[5]
    assert found.alone
    assert len(compiler.asked) <= 20


def test_where_passes_do_not_help_either_the_kernel_stays() -> None:
    compiler = Compiler([*PASSES, *KERNELS], lambda let: 35 in let, breaks=lambda let: 35 not in let)
    found = inside.find(compiler)
    assert found is not None
    assert found.blamed == KERNELS[4]
    assert not found.alone


def test_one_that_is_applied_twice_is_left_out_by_name() -> None:
    would = [Applied("joint_graph_passes", "noop"), Applied("post_grad_passes", "noop"), PASSES[3], *KERNELS]
    compiler = Compiler(would, lambda let: bool({0, 1} & let))
    found = inside.find(compiler)
    assert found is not None
    assert found.blamed is not None
    assert found.blamed.name == "noop"
    assert found.all_of_name


def test_two_that_are_needed_together_name_the_later() -> None:
    compiler = Compiler([*PASSES, *KERNELS], lambda let: {3, 35} <= let)
    found = inside.find(compiler)
    assert found is not None
    assert found.blamed == [*PASSES, *KERNELS][35]
    assert found.alone


def lowerings(*names: str) -> list[Applied]:
    return [Applied("lowering", f"aten.{name}.default") for name in names]


def test_operators_that_are_needed_together_are_all_told() -> None:
    would = [*PASSES, *lowerings("mul", "scatter_add", "exp", "sum")]
    found = inside.find(Compiler(would, lambda let: {32, 34} <= let))
    assert found is not None
    assert found.name == "lowering of aten.sum.default"
    assert found.partners == ("aten.scatter_add.default",)
    assert found.claims[-1].text == "Passes, too, when only the lowering of aten.scatter_add.default is skipped."


def test_one_that_computes_is_blamed_before_one_that_only_fills_memory() -> None:
    would = [*PASSES, *lowerings("mul", "scatter_add", "lift_fresh_copy")]
    found = inside.find(Compiler(would, lambda let: {32, 33} <= let))
    assert found is not None
    assert found.name == "lowering of aten.scatter_add.default"
    assert found.number == 33
    assert found.alone


def test_memory_that_is_filled_is_blamed_where_nothing_else_is_needed() -> None:
    would = [*PASSES, *lowerings("mul", "full")]
    found = inside.find(Compiler(would, lambda let: 32 in let))
    assert found is not None
    assert found.name == "lowering of aten.full.default"


def test_a_fault_outside_of_all_of_them_is_said() -> None:
    found = inside.find(Compiler(PASSES, lambda _: True))
    assert found is not None
    assert found.blamed is None
    assert [one.kind for one in found.claims] == [ClaimKind.FAILS]


def test_nothing_is_said_where_watching_hides_the_failure() -> None:
    assert inside.find(Compiler(PASSES, lambda _: False)) is None


def test_decompositions_are_searched_alone() -> None:
    would = [Applied("decomposition", f"aten.op_{i}.default") for i in range(9)]
    compiler = Compiler(would, lambda let: 4 in let)
    found = inside.find(compiler, inside.DECOMPOSITIONS)
    assert found is not None
    assert found.name == "decomposition of aten.op_4.default"


class CutShort(Compiler):
    """Answers the first questions; then the time is over."""

    def __init__(self, would: Sequence[Applied], wrong: Callable[[set[int]], bool], answers: int) -> None:
        super().__init__(would, wrong)
        self.left = answers

    def __call__(self, settings: Sequence[Setting]) -> list[Answer]:
        known = super().__call__(settings)
        self.left -= len(settings)
        return known if self.left >= 0 else [Answer(Match.UNKNOWN) for _ in settings]


@pytest.mark.parametrize("answers", range(3, 12))
def test_what_was_not_judged_is_never_read_as_passing(answers: int) -> None:
    """64 lowerings, the culprit the sixth: when the time is over, nobody else is blamed, and nobody is said to be."""
    would = lowerings(*(f"op_{i}" for i in range(64)))
    found = inside.find(CutShort(would, lambda let: 5 in let, answers))
    assert found is not None
    if found.alone:
        assert found.name == "lowering of aten.op_5.default"
    else:
        assert found.claims == ()
        assert found.not_known


def test_a_point_that_gives_no_answer_is_gone_round() -> None:
    would = lowerings(*(f"op_{i}" for i in range(64)))

    class Unsure(Compiler):
        def _compile(self, setting: Setting) -> Answer:
            return Answer(Match.UNKNOWN) if setting.first == 32 else super()._compile(setting)

    compiler = Unsure(would, lambda let: 5 in let)
    found = inside.find(compiler)
    assert found is not None
    assert found.name == "lowering of aten.op_5.default"
    assert [s.first for s in compiler.asked].count(32) == 2, "once more, and then beside it"


def test_the_culprit_is_backed_by_a_failing_and_a_passing_run() -> None:
    compiler = Compiler(lowerings("sin", "relu", "exp"), lambda let: 1 in let)
    found = inside.find(compiler)
    assert found is not None
    [said] = found.claims
    assert said.text == "Fails in the lowering of aten.relu.default: passes when only that step is skipped."
    assert len(said.judgements) == 2


def test_a_step_without_which_it_fails_otherwise_is_not_blamed() -> None:
    would = lowerings("sin", "relu", "exp")
    compiler = Compiler(would, lambda let: {0, 1} <= let, breaks=lambda let: not {0, 1} <= let)
    found = inside.find(compiler)
    assert found is not None
    assert not found.alone
    assert found.claims == ()
    assert found.not_known
