"""A stage that lasts long is suspected, and cleared when it comes to its end."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from test_run import torchsleuth_run
from torchsleuth.case.failure import Kind, Phase, of_hang
from torchsleuth.case.model import Backend
from torchsleuth.watch import hangs, patience, stages, watchdog
from torchsleuth.watch.alike import key_of
from torchsleuth.watch.found import Found, summarise
from torchsleuth.watch.hangs import Alone, HangWatch
from torchsleuth.watch.idle import Idle
from torchsleuth.watch.ledger import Ledger
from torchsleuth.watch.observer import Observer, Work
from torchsleuth.watch.session import Options, Outbox, processes
from torchsleuth.watch.watchdog import Watchdog


class ToyObserver:
    def __init__(self, while_kept: Callable[[], None] = lambda: None) -> None:
        self.outbox = SimpleNamespace(options=Options(hang_after=0.02))
        self._while_kept = while_kept
        self.kept: list[Work] = []
        self.cleared: list[int] = []

    def keep_suspect(self, work: Work, seconds: float) -> int | None:
        self._while_kept()
        self.kept.append(work)
        return 7 if len(self.kept) == 1 else None

    def clear_suspect(self, number: int) -> None:
        self.cleared.append(number)


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(hangs, "_LOOK_EVERY", 0.0)


def watching(observer: ToyObserver, work: list[Work]) -> Watchdog:
    dog = Watchdog(cast(Observer, observer))
    dog.entered(work)
    dog.start()
    return dog


@pytest.mark.usefixtures("impatient")
def test_a_slow_stage_is_kept_and_cleared_when_it_ends() -> None:
    observer, stage = ToyObserver(), Work(None, Phase.COMPILE_FORWARD, [])
    work = [stage]
    dog = watching(observer, work)
    until(lambda: observer.kept)
    dog.over(Work(None, Phase.COMPILE_FORWARD, []))
    assert observer.cleared == [], "another stage, though it looks the same"
    work.pop()
    dog.over(stage)
    dog.over(stage)
    assert observer.cleared == [7]


@pytest.mark.usefixtures("impatient")
def test_a_stage_that_ends_while_it_is_kept_is_cleared() -> None:
    work = [Work(None, Phase.COMPILE_FORWARD, [])]
    observer = ToyObserver(while_kept=work.clear)
    watching(observer, work)
    until(lambda: observer.cleared)
    assert observer.cleared == [7]


@pytest.mark.parametrize("phase", [Phase.COMPILE_FORWARD, Phase.RUN_BACKWARD])
@pytest.mark.usefixtures("impatient")
def test_the_size_of_a_graph_excuses_a_long_compile_not_a_long_run(
    monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    monkeypatch.setattr(watchdog, "operators", lambda graph: 1000)
    monkeypatch.setattr(patience, "_RUNNING_ONE", 0.0)
    sketch = SimpleNamespace(graph=None, surroundings=SimpleNamespace(backend=Backend("inductor")))
    observer = ToyObserver()
    work = [Work(cast(Any, SimpleNamespace(sketch=sketch, limits={})), phase, [])]
    watching(observer, work)
    if phase.compiling:
        time.sleep(0.3)
        assert not observer.kept
    else:
        until(lambda: observer.kept)
    work.clear()  # its thread outlives the test, and finds nothing to do
    time.sleep(0.05)


def suspected(outbox: Outbox, number: int = 1) -> None:
    case = outbox.folder / "cases" / str(number)
    case.mkdir(parents=True)
    failure = of_hang(Phase.COMPILE_FORWARD).to_json()
    outbox.event("suspect", number=number, failure=failure, case=str(case), graph=1, seconds=61.0)


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    box = Outbox(tmp_path, Options())
    box.hello()
    box.stage(Phase.COMPILE_FORWARD.value, 1)
    return box


def test_what_was_cleared_is_no_failure(outbox: Outbox) -> None:
    suspected(outbox)
    assert [f.suspect for f in summarise(outbox.session, 1).found] == [True]
    outbox.event("cleared", number=1)
    outbox.stage("", 0)
    assert summarise(outbox.session, 1).found == ()


def test_what_dies_after_a_slow_stage_is_a_crash(outbox: Outbox) -> None:
    suspected(outbox)
    outbox.event("cleared", number=1)
    assert [f.failure.fingerprint.error for f in summarise(outbox.session, -11).found] == ["SIGSEGV"]


def test_a_second_stage_that_lasts_long_is_suspected_too(outbox: Outbox) -> None:
    ledger = Ledger(outbox)
    key = key_of(of_hang(Phase.RUN_FORWARD))
    first = ledger._new_case(key)
    assert first is not None
    assert ledger._new_case(key) is None
    ledger.clear_suspect(first)
    assert ledger._new_case(key) == first + 1


@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.usefixtures("impatient")
def test_a_program_that_went_on_is_not_ended_whatever_the_judge_says(outbox: Outbox, cleared: bool) -> None:
    asked: list[Found] = []

    def confirm(suspect: Found) -> Alone:
        asked.append(suspect)
        if cleared:
            outbox.event("cleared", number=1)
        return Alone.HANGS

    watch = HangWatch(outbox.session, 60.0, confirm)
    assert not watch.tick()
    suspected(outbox)
    ended = [watch.tick()]
    until(lambda: watch._answer is not None and watch._answer.done())
    ended.append(watch.tick())
    assert ended == [False, not cleared]
    assert [s.seconds for s in asked] == [61.0]
    watch.close()


class ToyIdle:
    def __init__(self) -> None:
        self.lasted = 0.0
        self.asked: list[set[int]] = []

    def seconds(self, pids: set[int]) -> float:
        self.asked.append(pids)
        return self.lasted


@pytest.mark.usefixtures("impatient")
def test_where_nobody_works_any_more_it_hangs_although_it_ends_alone(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    watch = HangWatch(outbox.session, 60.0, lambda _: Alone.ENDS)
    idle = ToyIdle()
    watch._idle = cast(Idle, idle)
    suspected(outbox)
    watch.tick()
    until(lambda: watch._answer is not None and watch._answer.done())
    assert not watch.tick()
    idle.lasted = 59.0
    assert not watch.tick()
    idle.lasted = 61.0
    assert watch.tick()
    assert watch.why == hangs.NOBODY_WORKS
    assert idle.asked[-1] == {os.getpid()}
    watch.close()


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.usefixtures("impatient")
def test_what_could_not_be_judged_hangs_where_nobody_works_here_nor_elsewhere(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, broken: bool, elsewhere: bool
) -> None:
    """A rank in a collective cannot be run alone: it may wait for a slow rank on another machine."""
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr(hangs, "waits_for_elsewhere", lambda pids: elsewhere)

    def confirm(suspect: Found) -> Alone:
        if broken:
            raise KeyError("ours")
        return Alone.UNKNOWN

    watch = HangWatch(outbox.session, 60.0, confirm)
    watch._idle = cast(Idle, SimpleNamespace(seconds=lambda _: 1e6))
    suspected(outbox)
    watch.tick()
    until(lambda: watch._answer is not None and watch._answer.done())
    assert watch.tick() is not elsewhere
    assert [found.failure.kind for found in watch.hanging] == ([] if elsewhere else [Kind.HANG])
    assert (outbox.session / "trouble.log").exists() is broken
    watch.close()


@pytest.mark.usefixtures("impatient")
def test_how_long_nobody_works_is_counted_while_the_judge_is_asked(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def confirm(suspect: Found) -> Alone:
        answers.wait(20)
        return Alone.UNKNOWN

    watch = HangWatch(outbox.session, 60.0, confirm)
    idle = ToyIdle()
    watch._idle = cast(Idle, idle)
    suspected(outbox)
    assert not watch.tick()
    assert watch.judging
    assert not watch.tick()
    assert len(idle.asked) == 2
    answers.set()
    until(lambda: not watch.judging)
    watch.close()


@pytest.mark.usefixtures("impatient")
def test_who_was_killed_in_a_stage_is_no_reason_to_end_the_others(outbox: Outbox) -> None:
    asked: list[Found] = []

    def confirm(suspect: Found) -> Alone:
        asked.append(suspect)
        return Alone.HANGS

    suspected(outbox)
    hello = json.loads((outbox.folder / "hello.json").read_text())
    hello["life"]["started"] += 1  # another process has its number by now
    (outbox.folder / "hello.json").write_text(json.dumps(hello))
    watch = HangWatch(outbox.session, 60.0, confirm)
    assert not watch.tick()
    assert not watch.tick()
    assert asked == []
    watch.close()


@pytest.mark.usefixtures("impatient")
def test_a_stuck_interpreter_is_given_as_long_as_its_graph_may_take(outbox: Outbox) -> None:
    asked: list[Found] = []

    def confirm(suspect: Found) -> Alone:
        asked.append(suspect)
        return Alone.UNKNOWN

    watch = HangWatch(outbox.session, 60.0, confirm)
    begun = time.time() - 500
    row = stages._ROW.pack(stages.PHASES.index("compile-forward"), 3, begun, 1560.0)
    (outbox.folder / "stage").write_bytes(row)
    assert not watch.tick()
    assert asked == []
    (outbox.folder / "stage").write_bytes(
        stages._ROW.pack(stages.PHASES.index("compile-forward"), 3, time.time() - 1700, 1560.0)
    )
    watch.tick()
    until(lambda: asked)
    assert 1690 < asked[0].seconds < 1800
    watch.close()


def test_what_was_given_up_before_ctrl_c_was_not_under_way(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = HangWatch(outbox.session, 60.0, lambda _: Alone.UNKNOWN)
    assert [f.failure.phase for f in watch.interrupted()] == [Phase.COMPILE_FORWARD]
    watch._gone[outbox.folder] = time.monotonic() - 60
    assert watch.interrupted() == ()
    watch._gone[outbox.folder] = time.monotonic() - 1
    assert len(watch.interrupted()) == 1, "Ctrl-C ended it"
    watch.close()


@pytest.mark.usefixtures("impatient")
def test_each_thread_has_a_clock_of_its_own() -> None:
    """A server: one thread hangs, others come and go."""
    observer, stuck = ToyObserver(), Work(None, Phase.RUN_FORWARD, [])
    dog = watching(observer, [stuck])
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            work = [Work(None, Phase.RUN_FORWARD, [])]
            dog.entered(work)
            work.clear()
            dog.entered(work)
            time.sleep(0.001)

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        until(lambda: observer.kept)
    finally:
        over.set()
        other.join()
    assert observer.kept[0] is stuck


@pytest.mark.usefixtures("impatient")
def test_who_is_not_in_compiled_code_may_be_idle(outbox: Outbox) -> None:
    watch = HangWatch(outbox.session, 60.0, lambda _: Alone.ENDS)
    watch._idle = cast(Idle, SimpleNamespace(seconds=lambda _: 1e6))
    assert not watch.tick()
    suspected(outbox)
    watch.tick()
    until(lambda: watch._answer is not None and watch._answer.done())
    outbox.event("cleared", number=1)
    outbox.stage("", 0)
    assert not watch.tick()
    watch.close()


@pytest.mark.usefixtures("impatient")
def test_a_fork_has_a_watchdog_of_its_own(tmp_path: Path) -> None:
    observer = ToyObserver(while_kept=lambda: (tmp_path / str(os.getpid())).touch())
    dog = watching(observer, [])
    child = os.fork()
    if child == 0:
        try:
            dog.entered([Work(None, Phase.RUN_FORWARD, [])])
            until(lambda: observer.kept)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.iterdir()] == [str(child)]


@pytest.mark.parametrize(
    ("backend", "tunes"),
    [(Backend(), False), (Backend(mode="max-autotune-no-cudagraphs"), True), (Backend(mode="reduce-overhead"), False),
     (Backend(options={"max_autotune": True}), True), (Backend(options={"max_autotune": False}), False)],
)  # fmt: skip
def test_who_tunes_is_known(backend: Backend, tunes: bool) -> None:
    assert backend.tunes is tunes


SLOW = """
    import time
    import torch

    def slow(gm, inputs):
        time.sleep(9)
        return gm.forward

    assert torch.compile(lambda x: x.sin() + 1, backend=slow)(torch.ones(3)).sum() > {least}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("least", "verdict"), [(0, "ok"), (100, "program-error")])
def test_a_slow_backend_is_no_hang(tmp_path: Path, least: int, verdict: str) -> None:
    program = SLOW.format(least=least)
    ran = torchsleuth_run(tmp_path, "train.py", options=("--hang-after", "1"), train=program)
    assert ran.result["verdict"] == verdict
    assert ran.result["failures"] == []


@pytest.mark.parametrize(
    ("error", "over"),
    [(None, True), (ValueError(), True), (TimeoutError(), False), (KeyboardInterrupt(), False)],
)
def test_what_somebody_lost_patience_with_is_not_over(tmp_path: Path, error: BaseException | None, over: bool) -> None:
    observer = Observer(Outbox(tmp_path, Options(hang_after=0)))
    told: list[Work] = []
    observer._watchdog.over = told.append  # type: ignore[method-assign]

    def run() -> None:
        observer.stage(None, Phase.RUN_FORWARD)
        try:
            if error is not None:
                raise error
        finally:
            observer.unstage()

    with contextlib.suppress(BaseException):
        run()
    assert bool(told) is over


def test_a_stage_that_begins_while_an_error_is_handled_ends_well(tmp_path: Path) -> None:
    observer = Observer(Outbox(tmp_path, Options(hang_after=0)))
    told: list[Work] = []
    observer._watchdog.over = told.append  # type: ignore[method-assign]
    try:
        raise TimeoutError
    except TimeoutError:
        observer.stage(None, Phase.RUN_FORWARD)
        observer.unstage()
    assert told


def test_events_are_read_as_they_were_told(outbox: Outbox) -> None:
    suspected(outbox, 1)
    suspected(outbox, 2)
    outbox.event("cleared", number=1)
    [process] = processes(outbox.session)
    numbers: list[Any] = [event["number"] for event in process.suspects]
    assert numbers == [2]
