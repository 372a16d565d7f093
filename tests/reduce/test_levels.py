"""The graph after AOTAutograd as a program of its own: when it is tried, and which of the two is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from test_bodies import body, case_with, everywhere, forward
from test_units import jacobian
from toys import chain, needs, targets

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Ref
from torchsleuth.case.model import Autocast, Case, Level, Opaque, Surroundings
from torchsleuth.case.program import Form
from torchsleuth.investigate import minimise
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.generated import Noted
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.reduce.flatten import flattened
from torchsleuth.reduce.reducer import Hints

FAILURE = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("RuntimeError", "the bug"))


@dataclass
class ToyBench:
    """Judges with a toy; remembers where each Case was said to stand, and with its data or not."""

    fails: Callable[[Case], bool]
    noted: Noted = field(default_factory=Noted)
    fails_as: Callable[[Form], bool] = lambda form: True
    fails_without_data: bool = True
    judged: int = 0
    homes: list[str] = field(default_factory=list)

    @property
    def judge(self) -> ToyBench:
        return self

    def try_cases(
        self, cases: Sequence[Case], home: Path, form: Form, *, data: bool = False, attempt: int = 0
    ) -> list[Tried]:
        self.judged += len(cases)
        self.homes += [home.name for _ in cases]
        right = self.fails_as(form) and (data or self.fails_without_data)
        return [Tried(self._outcome(right and self.fails(c)), form, data) for c in cases]

    def _outcome(self, fails: bool) -> Outcome:
        return Outcome(Verdict.FAILED, FAILURE, noted=self.noted) if fails else Outcome(Verdict.PASSED)


@pytest.fixture(autouse=True)
def no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimise, "_run_probe", lambda means, home: {})


def reduced(
    case: Case, inner: Case | None, bench: ToyBench, data: bool = False, form: Form = Form.COMPILE
) -> minimise.Reduced:
    any_bench: Any = bench
    means = minimise.Means(any_bench, Path("home"), "python", {}, (), 1, float("inf"), lambda: False, lambda _: None)
    return minimise.reduce_case(case, FAILURE, form, data, Hints(), means, inner)


def aten(case: Case) -> Case:
    return replace(case, level=Level.ATEN, context={"kwargs": {"is_backward": True}})


def test_an_aten_case_becomes_a_forward_without_modes():
    around = Surroundings(grad=False, inference=True, autocast=(Autocast("cpu", "torch.bfloat16"),))
    inner = replace(aten(chain(2)), phase=Phase.RUN_BACKWARD, surroundings=around)
    flat = flattened(inner)
    assert flat is not None
    assert (flat.level, flat.phase, flat.context) == (Level.DYNAMO, Phase.RUN_FORWARD, {})
    assert flat.surroundings == Surroundings()


def test_what_is_no_aten_case_or_has_an_input_that_was_not_kept_does_not():
    assert flattened(chain(2)) is None
    assert flattened(replace(aten(chain(2)), inputs=(Opaque("a stream"),))) is None


def test_with_functorch_levels_the_flat_graph_comes_first():
    bench = ToyBench(needs("bug"))
    found = reduced(jacobian(), aten(chain(30, {7: "bug"})), bench)
    assert targets(found.case) == ["bug"]
    assert set(bench.homes) == {"inner"}


def test_where_the_flat_graph_passes_the_programs_own_is_reduced():
    bench = ToyBench(lambda c: needs("bug")(c) and len(c.graph.nodes) < 25)
    found = reduced(jacobian(), aten(chain(30, {7: "bug"})), bench)
    assert targets(found.case) == ["bug"]
    assert bench.homes.count("inner") == 1


def test_a_small_result_ends_it():
    bench = ToyBench(needs("bug"))
    reduced(chain(30, {7: "bug"}), aten(chain(30, {7: "bug"})), bench)
    assert set(bench.homes) == {"home"}


def test_the_one_with_fewer_operators_is_kept():
    five = "abcde"

    def fails(case: Case) -> bool:
        return set(five) <= set(targets(case)) or "bug" in targets(case)

    bench = ToyBench(fails)
    found = reduced(chain(30, dict(enumerate(five))), aten(chain(30, {7: "bug"})), bench)
    assert targets(found.case) == ["bug"]
    assert found.judged == bench.judged
    bench = ToyBench(lambda c: set(five) <= set(targets(c)))
    found = reduced(chain(30, dict(enumerate(five))), aten(chain(30, {7: "bug"})), bench)
    assert targets(found.case) == list(five)


def test_the_flat_graphs_own_kernel_is_the_hint():
    bench = ToyBench(needs("bug"), Noted((), "mul_bug"))
    found = reduced(jacobian(), aten(chain(500, {70: "bug", 80: "exp", 90: "log"})), bench)
    assert targets(found.case) == ["bug"]
    assert found.judged_to_smallest <= 2


def test_data_that_the_small_case_no_longer_needs_goes():
    assert not reduced(chain(5, {2: "bug"}), None, ToyBench(needs("bug")), data=True).way.data
    needed = ToyBench(needs("bug"), fails_without_data=False)
    assert reduced(chain(5, {2: "bug"}), None, needed, data=True).way.data


def test_a_body_that_needed_the_backends_form_goes_and_the_form_with_it():
    case = case_with("autograd_function_apply", {"f": forward(), "b": body("cos")}, lambda r: (*r, Ref("before")))

    def fails(candidate: Case) -> bool:
        return "sin" in everywhere(candidate)

    found = reduced(case, None, ToyBench(fails), form=Form.BACKEND)
    assert (targets(found.case), found.way.form) == (["sin"], Form.COMPILE)


def test_the_backends_form_stays_where_it_is_needed():
    bench = ToyBench(needs("bug"), fails_as=lambda form: form is Form.BACKEND)
    found = reduced(chain(9, {4: "bug"}), None, bench, form=Form.BACKEND)
    assert (targets(found.case), found.way.form) == (["bug"], Form.BACKEND)
