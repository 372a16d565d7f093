"""A budget that is spent, Ctrl-C and SIGTERM: each ends everything that is under way, and is told apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from torchsleuth.budget import Budget
from torchsleuth.commands import interruption as interruption_module
from torchsleuth.commands.interruption import Cause, Interruption


def eventually(so: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not so() and time.monotonic() < until:
        time.sleep(0.01)
    return so()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption_module, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(interruption_module, "_PATIENCE", 0.3)


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_budget_counts_down_to_nothing() -> None:
    budget = Budget.of(100.0)
    assert 99.0 < budget.left() <= 100.0
    assert not budget.over()
    spent = Budget.of(0.0)
    assert (spent.left(), spent.over()) == (0.0, True)


def test_a_share_is_a_part_of_what_is_left_and_cancelled_with_the_whole() -> None:
    whole = Budget.of(100.0)
    third = whole.share(3)
    assert third.left() == pytest.approx(100 / 3, abs=0.5)
    assert whole.share(0).left() == pytest.approx(100, abs=0.5)
    whole.cancelled.set()
    assert third.over()
    assert whole.over()
    assert whole.share(2).over()


def test_a_budget_begins_once() -> None:
    interruption = Interruption()
    first = interruption.begin(100.0)
    assert interruption.begin(5.0) is first
    interruption.stopped.set()
    assert first.over()


@pytest.mark.usefixtures("quick")
def test_a_spent_budget_ends_what_is_under_way_and_is_no_ctrl_c() -> None:
    ended = threading.Event()
    with Interruption() as interruption:
        interruption.ends(ended.set)
        time.sleep(0.1)
        assert not ended.is_set(), "it has not begun"
        interruption.begin(0.2)
        assert not ended.is_set()
        assert ended.wait(10)
        assert interruption.stopped.is_set()
        assert (interruption.cause, interruption.said) == (Cause.BUDGET, "the budget of 0.2 s was spent")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("number", "cause", "said"),
    [
        (signal.SIGINT, Cause.CTRL_C, "stopped by Ctrl-C"),
        (signal.SIGTERM, Cause.SIGTERM, "stopped by SIGTERM"),
        (signal.SIGHUP, Cause.SIGHUP, "stopped by SIGHUP"),
    ],
)
def test_a_signal_ends_what_is_under_way_and_the_first_cause_is_told(
    number: signal.Signals, cause: Cause, said: str
) -> None:
    ended = threading.Event()
    before = signal.getsignal(number)
    with Interruption() as interruption:
        interruption.ends(ended.set)
        budget = interruption.begin(600.0)
        os.kill(os.getpid(), number)
        assert ended.wait(10)
        os.kill(os.getpid(), signal.SIGINT)
        assert eventually(budget.over)
    assert (interruption.cause, interruption.said) == (cause, said)
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("quick")
def test_what_is_opened_or_asked_after_the_end_is_ended_too() -> None:
    """An engine that an investigation opens between the first round and the next."""
    engines: list[threading.Event] = [threading.Event()]

    def end() -> None:
        for engine in engines:
            engine.set()

    with Interruption() as interruption:
        interruption.ends(end)
        interruption.begin(0.0)
        assert engines[0].wait(10)
        engines.append(threading.Event())
        assert engines[1].wait(10)
        late = threading.Event()
        interruption.ends(late.set)
        assert late.is_set()


@pytest.mark.usefixtures("quick")
def test_an_end_that_waits_does_not_keep_the_others() -> None:
    over, ended = threading.Event(), threading.Event()
    waiting: list[int] = []

    def wait() -> None:
        waiting.append(1)
        over.wait(20)

    with Interruption() as interruption:
        interruption.ends(wait)
        interruption.ends(ended.set)
        interruption.begin(0.0)
        assert ended.wait(10)
        time.sleep(0.1)
        assert waiting == [1], "it is not asked again while it waits"
        over.set()


@pytest.mark.usefixtures("quick")
def test_whatever_does_not_end_is_killed(sleeping: subprocess.Popen[bytes]) -> None:
    with Interruption() as interruption:
        interruption.begin(0.0)
        assert sleeping.wait(20) == -signal.SIGKILL


@pytest.mark.usefixtures("quick")
def test_in_a_process_of_the_users_nothing_is_killed(sleeping: subprocess.Popen[bytes]) -> None:
    with Interruption(own_process=False) as interruption:
        interruption.begin(0.0)
        assert eventually(interruption.stopped.is_set)
        time.sleep(0.8)
        assert sleeping.poll() is None


def test_a_process_of_the_users_ends_for_its_signal_in_the_end() -> None:
    source = """
    import os, signal
    from torchsleuth.commands.interruption import Interruption
    with Interruption(own_process=False) as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.stopped.wait(10)
        print("written", flush=True)
    print("not reached")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("written\n", -signal.SIGTERM)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.3)
            assert not interruption.stopped.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
