"""Memory that a program and a trial ran out of: of the host, where our own limit counts, or of a device, where not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from journaled_reduction import CASE

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_exception, of_memory_limit, of_signal
from torchsleuth.case.program import Form
from torchsleuth.investigate import minimise, starts
from torchsleuth.investigate.starts import Start, Subject
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial

PHASE = Phase.RUN_FORWARD


def raised(error: BaseException) -> Failure:
    return of_exception(error, PHASE)


LIMIT = of_memory_limit(PHASE)  # our own, or the kernel: a trial that was killed
KILLED = of_signal(9, PHASE)  # a program that was
ON_CUDA = raised(
    torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB free. Process 7 has 78 GiB."
    )
)
ON_CUDA_AGAIN = raised(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."))
OF_DRIVER = raised(RuntimeError("CUDA error: out of memory"))
OF_WORKER = raised(RuntimeError("the worker raised torch.OutOfMemoryError: XPU out of memory."))
OF_PYTHON = raised(MemoryError())
OF_ALLOCATOR = raised(
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 4611686018427387904 bytes. Error code 12 (Cannot allocate memory)"
    )
)
OF_CPP = raised(RuntimeError("std::bad_alloc"))
SEGFAULT = of_signal(11, PHASE)


def tried(failure: Failure) -> Tried:
    return Tried(Outcome(Verdict.FAILED, failure), Form.COMPILE, False)


@pytest.mark.parametrize(
    "of_program", [ON_CUDA, OF_DRIVER, OF_WORKER], ids=["torch.OutOfMemoryError", "CUDA error", "of a compile worker"]
)
class TestAnErrorOfADevice:
    def test_is_not_shown_by_our_limit(self, of_program: Failure) -> None:
        assert of_program.kind is Kind.OUT_OF_MEMORY
        assert not minimise.same_failure(tried(LIMIT), of_program)

    def test_nor_by_the_host_that_refused_memory(self, of_program: Failure) -> None:
        for alone in (OF_PYTHON, OF_ALLOCATOR, OF_CPP):
            assert not minimise.same_failure(tried(alone), of_program)

    def test_but_by_an_error_of_a_device_however_much_was_asked_for(self, of_program: Failure) -> None:
        for alone in (ON_CUDA, ON_CUDA_AGAIN, OF_DRIVER):
            assert minimise.same_failure(tried(alone), of_program)


@pytest.mark.parametrize("of_program", [OF_PYTHON, OF_ALLOCATOR, OF_CPP], ids=["MemoryError", "allocator", "bad_alloc"])
def test_a_host_that_refused_memory_is_shown_by_our_limit_and_not_by_a_device(of_program: Failure) -> None:
    assert minimise.same_failure(tried(LIMIT), of_program)
    assert minimise.same_failure(tried(of_program), of_program)
    assert not minimise.same_failure(tried(ON_CUDA), of_program)
    assert not minimise.same_failure(tried(SEGFAULT), of_program)


def test_a_program_that_was_killed_is_shown_by_our_limit_and_by_nothing_that_is_raised() -> None:
    assert KILLED.kind is Kind.CRASH
    assert minimise.same_failure(tried(LIMIT), KILLED)
    for alone in (ON_CUDA, OF_PYTHON, OF_ALLOCATOR, SEGFAULT):
        assert not minimise.same_failure(tried(alone), KILLED)


def test_what_was_seen_alone_is_looked_for_from_then_on() -> None:
    """The failure of a Case that was judged is what its reductions are compared with."""
    assert minimise.same_failure(tried(LIMIT), LIMIT)
    assert not minimise.same_failure(tried(ON_CUDA), LIMIT)


def test_no_other_death_is_shown_by_our_limit() -> None:
    unseen = Failure(Kind.CRASH, PHASE, Fingerprint("crash"))
    for of_program in (SEGFAULT, unseen):
        assert not minimise.same_failure(tried(LIMIT), of_program)
        assert minimise.same_failure(tried(SEGFAULT), of_program)


class TestTheFailureOfAStart:
    def start(self, alone: Failure) -> Start:
        return Start(CASE, None, tried(alone), Way(Form.COMPILE, False, Path()))

    def test_of_a_killed_program_is_that_it_was_for_memory(self) -> None:
        found = self.start(LIMIT).failure(KILLED)
        assert (found.kind, found.fingerprint) == (Kind.OUT_OF_MEMORY, LIMIT.fingerprint)

    def test_of_a_death_that_nobody_saw_is_the_signal(self) -> None:
        found = self.start(SEGFAULT).failure(Failure(Kind.CRASH, PHASE, Fingerprint("crash")))
        assert (found.kind, found.fingerprint) == (Kind.CRASH, SEGFAULT.fingerprint)

    def test_of_another_sort_is_not_taken_for_the_programs(self) -> None:
        assert self.start(LIMIT).failure(ON_CUDA) == ON_CUDA
        assert self.start(LIMIT).failure(SEGFAULT) == SEGFAULT

    def test_of_the_same_sort_is_the_one_seen_alone(self) -> None:
        assert self.start(ON_CUDA_AGAIN).failure(ON_CUDA).fingerprint == ON_CUDA_AGAIN.fingerprint


class _Judge:
    jobs = 1

    def __init__(self, alone: Failure) -> None:
        self._outcome = Outcome(Verdict.FAILED, alone)

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        return [self._outcome for _ in trials]


@pytest.mark.parametrize(
    ("of_program", "alone", "starts_there"),
    [(ON_CUDA, LIMIT, False), (ON_CUDA, ON_CUDA_AGAIN, True), (KILLED, LIMIT, True)],
)
def test_a_reduction_starts_where_the_same_memory_ran_out(
    tmp_path: Path, of_program: Failure, alone: Failure, starts_there: bool
) -> None:
    bench = Bench(_Judge(alone), tmp_path, python=sys.executable, environment={}, deadline=30.0)  # type: ignore[arg-type]
    found = starts.of_whole(Subject(CASE, None, tmp_path, of_program, bench), lambda: False, lambda _: None)
    assert isinstance(found, Start) is starts_there
    if not starts_there:
        assert "fails in another way: memory limit" in str(found)
