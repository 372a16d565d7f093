"""What all Judges share, with a toy provider: order of outcomes, counting, cache runs, cancelling."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.judge import ForkedCudaJudge, ForkedJudge, SpawnedJudge, Trial, Verdict, limits, open_judge
from torchsleuth.judge.child import _Report
from torchsleuth.judge.conduct import Conductor
from torchsleuth.judge.environment import (
    home,
    judge_environment,
    with_own_pool,
    with_torchsleuth,
    without_torchsleuth,
)
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.order import Cause, Ending, Order, Stage

FAILURE = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError", "no"))


class ToyJudge(Conductor):
    """Performs orders by a function; `fails` says of an order whether its compiled run fails."""

    def __init__(self, scratch: Path, fails: Callable[[Order], bool], jobs: int = 2) -> None:
        super().__init__(scratch, jobs)
        self.orders: list[Order] = []
        self.fails = fails
        self.stop = threading.Event()

    def _perform(self, order: Order) -> None:
        self.orders.append(order)
        report = _Report(order.report)
        for stage in order.stages:
            report.tell(f"{stage.value}-began")
            if stage is Stage.COMPILED and self.fails(order):
                report.tell("compiled-failed", seconds=2.0, failure=FAILURE.to_json())
                break
            report.tell(f"{stage.value}-passed", seconds=1.0)
        Ending(Cause.CANCELLED if self.stop.is_set() else Cause.EXITED).write(order.ending)

    def _end_all(self) -> None:
        self.stop.set()


def source_of(order: Order) -> str:
    return Path(order.source).read_text()


def test_outcomes_stand_in_the_order_of_the_trials(tmp_path: Path) -> None:
    def fails(order: Order) -> bool:
        time.sleep(0.05 if source_of(order) == "0" else 0)
        return source_of(order) in ("0", "3")

    judge = ToyJudge(tmp_path / "scratch", fails)
    outcomes = judge.judge_all(Trial(str(n), tmp_path) for n in range(5))
    assert [outcome.verdict is Verdict.FAILED for outcome in outcomes] == [True, False, False, True, False]
    assert judge.judged == 5


@pytest.mark.parametrize("jobs", [1, 3])
def test_at_most_jobs_run_at_once(tmp_path: Path, jobs: int) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def fails(order: Order) -> bool:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.05)
        with lock:
            inside -= 1
        return False

    ToyJudge(tmp_path / "scratch", fails, jobs).judge_all([Trial("x", tmp_path)] * 7)
    assert most == jobs


def test_an_order_says_all_that_a_trial_asks_for(tmp_path: Path) -> None:
    judge = ToyJudge(tmp_path / "scratch", lambda order: False)
    judge.judge(Trial("source", tmp_path, Phase.COMPILE_BACKWARD, deadline=7.0, memory_limit=123))
    (order,) = judge.orders
    assert (order.phase, order.deadline, order.memory_limit) == (Phase.COMPILE_BACKWARD, 7.0, 123)
    assert order.stages == (Stage.EAGER, Stage.COMPILED)
    assert order.script == str(tmp_path / "repro.py")
    assert (tmp_path / "repro.py").read_text() == "source"


def test_without_a_limit_the_memory_that_is_free_decides(tmp_path: Path) -> None:
    judge = ToyJudge(tmp_path / "scratch", lambda order: False)
    judge.judge(Trial("source", tmp_path))
    assert 1 << 26 < judge.orders[0].memory_limit < 1 << 50


@pytest.mark.parametrize(("jobs", "trials", "each"), [(2, 7, 400), (4, 4, 200), (4, 2, 400), (4, 1, 800)])
def test_trials_that_run_at_once_share_the_memory_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, trials: int, each: int
) -> None:
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    judge = ToyJudge(tmp_path / "scratch", lambda order: False, jobs)
    judge.judge_all([Trial("x", tmp_path)] * trials)
    assert [order.memory_limit for order in judge.orders] == [each] * trials


def test_a_trial_alone_is_left_most_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    judge = ToyJudge(tmp_path / "scratch", lambda order: False, 4)
    judge.judge(Trial("x", tmp_path))
    assert judge.orders[0].memory_limit == 800


def test_nothing_is_left_in_either_folder(tmp_path: Path) -> None:
    judge = ToyJudge(tmp_path / "scratch", lambda order: True)
    (tmp_path / "here").mkdir()
    judge.judge(Trial("source", tmp_path / "here"))
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["repro.py"]


@pytest.mark.parametrize("name", ["my results", "a'b", "$HOME", "x;y"])
def test_caches_never_stand_where_a_compiler_would_stumble(tmp_path: Path, name: str) -> None:
    """Inductor does not quote the paths it hands to the C++ compiler."""
    with ToyJudge(tmp_path / name, lambda order: False) as judge:
        assert judge.judge(Trial("source", tmp_path)).verdict is Verdict.PASSED
        (order,) = judge.orders
        assert name not in order.cache
        assert judge.scratch.is_dir()
    assert not judge.scratch.exists()


def test_a_plain_scratch_folder_is_used_and_left(tmp_path: Path) -> None:
    with ToyJudge(tmp_path / "scratch", lambda order: False) as judge:
        assert judge.scratch == tmp_path / "scratch"
    assert judge.scratch.is_dir()


def test_a_cache_run_shares_the_cache_and_the_last_counts(tmp_path: Path) -> None:
    judge = ToyJudge(tmp_path / "scratch", lambda order: len(judge.orders) == 2)
    outcome = judge.judge(Trial("source", tmp_path, cache_runs=2))
    assert [order.stages for order in judge.orders] == [(Stage.EAGER, Stage.COMPILED), (Stage.COMPILED,)]
    assert judge.orders[0].cache == judge.orders[1].cache
    assert judge.orders[0].work != judge.orders[1].work
    assert match(outcome, Target(FAILURE)) is Match.SAME
    assert (outcome.eager_seconds, outcome.seconds) == (1.0, 2.0)
    assert judge.judged == 1


def test_a_first_run_that_fails_ends_it(tmp_path: Path) -> None:
    judge = ToyJudge(tmp_path / "scratch", lambda order: True)
    assert judge.judge(Trial("source", tmp_path, cache_runs=2)).verdict is Verdict.FAILED
    assert len(judge.orders) == 1


def test_after_a_cancel_what_waits_is_not_begun(tmp_path: Path) -> None:
    def fails(order: Order) -> bool:
        judge.cancel()
        return False

    judge = ToyJudge(tmp_path / "scratch", fails, jobs=1)
    outcomes = judge.judge_all([Trial("x", tmp_path)] * 4)
    assert len(judge.orders) == 1
    assert {(outcome.verdict, outcome.reason) for outcome in outcomes} == {(Verdict.UNKNOWN, "cancelled")}
    assert judge.judged == 0


def test_an_interrupt_ends_what_is_in_flight_and_goes_on_up(tmp_path: Path) -> None:
    def fails(order: Order) -> bool:
        raise KeyboardInterrupt

    judge = ToyJudge(tmp_path / "scratch", fails)
    with pytest.raises(KeyboardInterrupt):
        judge.judge(Trial("x", tmp_path))
    assert judge.stop.is_set()
    assert list((tmp_path / "scratch").iterdir()) == []
    judge.stop.clear()
    with pytest.raises(KeyboardInterrupt):
        judge.judge_all([Trial("x", tmp_path)])
    assert judge.stop.is_set()


def test_leaving_the_context_ends_what_is_in_flight(tmp_path: Path) -> None:
    with ToyJudge(tmp_path / "scratch", lambda order: False) as judge:
        assert not judge.stop.is_set()
    assert judge.stop.is_set()


@pytest.mark.parametrize(
    ("devices", "provider"),
    [
        ({"cpu"}, ForkedJudge),
        ({"cpu", "meta"}, ForkedJudge),
        (set(), ForkedJudge),
        ({"cuda:0"}, ForkedCudaJudge),
        ({"cpu", "cuda"}, ForkedCudaJudge),
        ({"xpu"}, SpawnedJudge),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")
def test_devices_choose_the_judge(
    devices: set[str], provider: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, object] = {}

    def remember(self: object, *arguments: object, **options: object) -> None:
        made.update(options, arguments=arguments)

    monkeypatch.setattr(provider, "__init__", remember)
    judge = open_judge(devices, python="py", environment={"A": "1"}, scratch=tmp_path, path=["p"], jobs=3)
    assert type(judge) is provider
    assert made["arguments"] == ("py", {"A": "1"}, ["p"], 3)
    assert made["scratch"] == tmp_path


def test_off_linux_nothing_is_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsleuth.judge.choose.sys.platform", "darwin")
    monkeypatch.setattr(SpawnedJudge, "__init__", lambda self, *arguments, **options: None)
    for device in ("cpu", "cuda"):
        assert type(open_judge({device}, python="py", environment={}, scratch=tmp_path)) is SpawnedJudge


def test_the_environment_keeps_what_the_compiler_depends_on() -> None:
    kept = {"TORCHINDUCTOR_FREEZING": "1", "OMP_NUM_THREADS": "3", "CXX": "clang++", "RANK": "0", "HOME": "/h"}
    assert judge_environment(kept) == {**kept, "TORCHDYNAMO_VERBOSE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


@pytest.mark.parametrize(
    "name",
    "TORCHSLEUTH_WATCH TORCHSLEUTH_OUT TORCHDYNAMO_REPRO_AFTER TORCHDYNAMO_REPRO_LEVEL TORCH_COMPILE_DEBUG "
    "TORCH_COMPILE_DEBUG_DIR TORCH_LOGS TORCH_LOGS_OUT TORCH_TRACE TORCH_COMPILE_DISABLE "
    "TORCH_COMPILE_OVERRIDE_BACKENDS TORCH_BISECT_BACKEND TORCH_BISECT_MAX TORCHINDUCTOR_CACHE_DIR "
    "TRITON_CACHE_DIR PYTHONINSPECT".split(),
)
def test_the_environment_drops_what_would_disturb(name: str) -> None:
    assert name not in judge_environment({name: "1"})
    assert judge_environment({name: "1"}, {name: "2"})[name] == "2"


def test_the_programs_compile_threads_do_not_count() -> None:
    assert judge_environment({"TORCHINDUCTOR_COMPILE_THREADS": "32"})["TORCHINDUCTOR_COMPILE_THREADS"] == "1"


def test_but_they_do_where_a_script_is_to_have_them() -> None:
    for own in ({}, {"TORCHINDUCTOR_COMPILE_THREADS": "32"}):
        pooled = judge_environment(with_own_pool(judge_environment(own), own))
        assert pooled.get("TORCHINDUCTOR_COMPILE_THREADS") == own.get("TORCHINDUCTOR_COMPILE_THREADS")


def test_torchsleuth_comes_last_on_the_path_and_can_be_taken_off() -> None:
    put = with_torchsleuth({"PYTHONPATH": "/a:/b"}, ["/p"])
    assert put["PYTHONPATH"].split(":") == ["/p", "/a", "/b", str(home())]
    assert without_torchsleuth(put)["PYTHONPATH"].split(":") == ["/p", "/a", "/b"]
    assert "PYTHONPATH" not in without_torchsleuth(with_torchsleuth({}))
    assert without_torchsleuth({"X": "1"}) == {"X": "1"}
