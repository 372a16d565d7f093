"""How long a stage that did not end in the program is given when it is run alone, and what its end says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from torchsleuth.case import folder
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Backend, Case, Level, Storage, Surroundings, Tensor
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.placing import Means, alone_as_long, hang_limit
from torchsleuth.judge.bench import Bench
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.watch.found import Found
from torchsleuth.watch.hangs import Alone
from torchsleuth.watch.session import Process


def chain(length: int, mode: str | None = None) -> Case:
    square = Value("torch.float32", (4, 4), (4, 1))
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=square)]
    for i in range(length):
        nodes.append(Node(f"op_{i}", Op.CALL_FUNCTION, "torch.sin", (Ref(nodes[-1].name),), value=square))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    around = replace(Surroundings(), backend=Backend("inductor", mode=mode))
    tensor = Tensor("torch.float32", (4, 4), (4, 1), storage=0)
    return Case(Level.DYNAMO, Graph(tuple(nodes)), (tensor,), storages=(Storage(0),), surroundings=around)


def test_a_large_graph_and_one_that_is_tuned_may_take_long() -> None:
    assert hang_limit(chain(2)) == 30.0
    assert hang_limit(chain(200)) == 100.0
    assert hang_limit(chain(2, "max-autotune")) == 150.0


def test_alone_it_is_given_more_than_it_had_in_the_program() -> None:
    assert alone_as_long(chain(50), 85.0) == 127.5
    assert alone_as_long(chain(400), 0.0) == hang_limit(chain(400))


class ToyJudge:
    """Answers by the form: what calls torch.compile, and what hands the graph to the backend."""

    def __init__(self, compiled: Outcome, handed: Outcome) -> None:
        self.answers = {True: compiled, False: handed}
        self.deadlines: list[float] = []

    def judge_all(self, trials: Iterable[Trial], heard: object) -> list[Outcome]:
        asked = list(trials)
        self.deadlines += [trial.deadline for trial in asked]
        return [self.answers["torch.compile(f" in trial.source] for trial in asked]


PASSED = Outcome(Verdict.PASSED)
NOBODY_KNOWS = Outcome(Verdict.UNKNOWN)
HANGS = Outcome(Verdict.FAILED, of_hang(Phase.COMPILE_FORWARD))
OTHERWISE = Outcome(Verdict.FAILED, Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError")))


@pytest.mark.parametrize(
    ("compiled", "handed", "says"),
    [
        (HANGS, PASSED, Alone.HANGS),
        (PASSED, PASSED, Alone.ENDS),
        (NOBODY_KNOWS, NOBODY_KNOWS, Alone.UNKNOWN),
        (OTHERWISE, NOBODY_KNOWS, Alone.UNKNOWN),
        (NOBODY_KNOWS, PASSED, Alone.ENDS),
        (Outcome(Verdict.INVALID, reason="eager itself fails"), NOBODY_KNOWS, Alone.UNKNOWN),
    ],
)
def test_only_what_was_seen_to_end_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: Outcome, handed: Outcome, says: Alone
) -> None:
    judge = ToyJudge(compiled, handed)

    def bench(self: Investigation, case: Case, deadline: float, failure: Failure) -> Bench:
        return Bench(judge, tmp_path, python="python", environment={}, deadline=deadline)  # type: ignore[arg-type]

    monkeypatch.setattr(Investigation, "_bench", bench)
    kept = tmp_path / "case"
    folder.save(replace(chain(50), phase=Phase.COMPILE_FORWARD), kept)
    suspect = Found(of_hang(Phase.COMPILE_FORWARD), kept, Process(tmp_path, {}), suspect=True, seconds=85.0)
    with Investigation(Means("python", {}, (), 1, 30.0), tmp_path / "out", lambda _: None) as investigation:
        assert investigation.alone(suspect) is says
    assert set(judge.deadlines) == {127.5}


def test_what_has_no_case_is_not_known(tmp_path: Path) -> None:
    suspect = Found(of_hang(Phase.COMPILE_FORWARD), None, Process(tmp_path, {}), suspect=True)
    with Investigation(Means("python", {}, (), 1, 30.0), tmp_path / "out", lambda _: None) as investigation:
        assert investigation.alone(suspect) is Alone.UNKNOWN
        whole = chain(300)
        limit = investigation._deadlines(whole, replace(suspect, seconds=210.0))
        assert limit(whole) == 315.0, "not less than it may honestly take"
        assert limit(chain(300, "max-autotune")) == 315.0
        assert limit(chain(20)) == 30.0
