"""Whose fault it is that a program fails and no compiler did, by what its reruns say; the reruns are made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from command_line import RunCli, torch_script
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, wrong_numbers as failure_of
from torchsleuth.commands import one_by_one
from torchsleuth.investigate import wrong_numbers
from torchsleuth.investigate.program_end import ProgramEnd
from torchsleuth.investigate.rerun import NudgedRun, RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.referee.nudge import Step
from torchsleuth.watch.found import Found, Summary, died
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Process
from torchsleuth.watch.uncaught import Uncaught
from torchsleuth.write.findings import Finding

SAME, OTHER, PASSED, INVALID, UNKNOWN = Match.SAME, Match.OTHER, Match.PASSED, Match.INVALID, Match.UNKNOWN
_DECOMPOSED = "aot_eager_decomp_partition"
FAILED = ProgramEnd(1)
_BELOW = {"eager": PASSED, "aot_eager": PASSED, _DECOMPOSED: PASSED}


def outcome(found: Match, end: ProgramEnd | None = None) -> RerunOutcome:
    status = {Match.PASSED: 0, Match.UNKNOWN: None}.get(found, 1)
    return RerunOutcome(found, end or ProgramEnd(status))


@dataclass
class Reruns:
    """What each rerun gives: a Match, or one for each time that it is run; what is not said is the usual answer."""

    numbers: Summary
    kinds: Summary
    strides: Summary
    gives: Mapping[str, Match | Sequence[Match]]
    steps: Mapping[int, tuple[Step, ...]] = field(default_factory=dict)  # by units of the nudge
    first: ProgramEnd = FAILED
    nudged_end: ProgramEnd = FAILED
    runs: list[str] = field(default_factory=list)

    def _next(self, name: str, usual: Match = PASSED) -> Match:
        self.runs.append(name)
        given = self.gives.get(name, usual)
        return given if isinstance(given, Match) else given[min(self.runs.count(name), len(given)) - 1]

    def with_numbers(self, wanted: str) -> Summary:
        return {"kinds": self.kinds, "strides": self.strides}.get(wanted, self.numbers)

    def unchanged(self, failure: Failure | None = None, *, number: int = 0) -> RerunOutcome:
        return outcome(self._next("unchanged", SAME))

    def without_compiling(self, failure: Failure | None = None, *, once_more: bool = False) -> RerunOutcome:
        return outcome(self._next("off"))

    def with_backend(self, backend: str, failure: Failure | None = None, *, once_more: bool = False) -> RerunOutcome:
        return outcome(self._next(backend))

    def nudged(self, seed: int, units: int, failure: Failure | None = None) -> NudgedRun:
        found = self._next("nudged") if units else PASSED
        return NudgedRun(units, outcome(found, self.nudged_end if found is SAME else None), self.steps.get(units, ()))

    def emulating_casts(self) -> RerunOutcome:
        return outcome(self._next("casts", SAME))

    def uncompared(self, *, cached: bool = True, draw_like_eager: bool = True) -> RerunOutcome:
        name = "alone" if cached else "uncached"
        return outcome(self._next(name if draw_like_eager else "own draws"))


def looked(
    tmp_path: Path,
    *,
    wrong: bool = False,
    compared: int = 1,
    kinds: bool = False,
    excused: bool = False,
    strides: str = "",
    reruns: list[Reruns] | None = None,
    more: Mapping[str, Any] | None = None,
    **gives: Match | Sequence[Match],
) -> wrong_numbers.Looked:
    process = Process(tmp_path, {})
    first = Summary(1, 1, (), reference=process, exit_code=1)
    found = Found(failure_of("values", Phase.RUN_FORWARD, "", "out is wrong"), None, process)
    numbers = replace(
        first,
        found=(found,) if wrong else (),
        exit_code=compared,
        excused=("out[0]: rounding",) if excused else (),
        strides=bool(strides),
    )
    kept = replace(first, found=(found,) if strides == "kept" else ())
    made = Reruns(numbers, replace(first, found=(found,) if kinds else ()), kept, gives, **(more or {}))
    if reruns is not None:
        reruns.append(made)
    again: Any = made
    return wrong_numbers.look(first, again, lambda _: None)


@pytest.mark.parametrize(
    ("said", "blamed", "note"),
    [
        ({"wrong": True}, "", "compared with eager"),
        ({"off": SAME}, None, "fails with compilation off, too"),
        ({"compared": 0, "alone": SAME, "eager": SAME}, "dynamo", "comparing hides it"),
        ({"compared": 0, "alone": SAME, **_BELOW, "uncached": SAME}, "inductor", "Inductor is to blame"),
        ({"compared": 0, "alone": SAME, **_BELOW, "uncached": PASSED}, "inductor", "caches of compiled graphs"),
        ({"compared": 0, "alone": SAME, "excused": True, **_BELOW, "uncached": PASSED}, "inductor", "caches of"),
        ({"compared": 0, "kinds": True}, "", "compared with eager"),
        ({"eager": SAME}, "dynamo", "Dynamo is to blame"),
        ({"eager": PASSED, "aot_eager": SAME}, "aot", "AOTAutograd is to blame"),
        ({"eager": PASSED, "aot_eager": PASSED, _DECOMPOSED: SAME}, "decomposition", "a decomposition is to blame"),
        (_BELOW, "inductor", "Inductor is to blame"),
        ({**_BELOW, "excused": True, "casts": PASSED}, None, "emulate_precision_casts"),
        ({**_BELOW, "excused": True, "casts": UNKNOWN}, None, "is not known"),
        ({"eager": PASSED, "excused": True, "aot_eager": SAME}, "aot", "AOTAutograd is to blame"),
        # It is no matter of rounding, although there is some.
        ({**_BELOW, "excused": True, "casts": SAME}, "inductor", "Inductor is to blame"),
        ({**_BELOW, "strides": "kept"}, "", "(the strides) of a result"),
        ({**_BELOW, "strides": "not kept"}, "inductor", "Inductor is to blame"),
        ({"eager": SAME, "strides": "kept"}, "dynamo", "Dynamo is to blame"),
        ({"off": SAME, "strides": "kept"}, None, "fails with compilation off, too"),
        # A rerun that Ctrl-C or its time limit ended blames nobody, nor does one that failed in another way.
        ({"off": UNKNOWN}, None, "with compilation off, the program was not seen to end"),
        ({"off": OTHER}, None, "whether eager has this failure is not known"),
        ({"off": INVALID}, None, "compilation could not be switched off"),
        ({"off": UNKNOWN, "compared": 0}, None, "with compilation off, the program was not seen to end"),
        ({"eager": UNKNOWN}, None, "is not known"),
        ({"eager": OTHER}, None, "is not known"),
        ({"eager": PASSED, "aot_eager": UNKNOWN}, None, "is not known"),
        ({"eager": PASSED, "aot_eager": OTHER}, None, "is not known"),
    ],
)
def test_whose_fault_it_is(tmp_path: Path, said: dict[str, Any], blamed: str | None, note: str) -> None:
    """A component of "" is left to the ladder: there is a wrong graph to climb it with."""
    found = looked(tmp_path, **said)
    assert [f.component for f in found.summary.found] == ([] if blamed is None else [blamed])
    assert any(note in one for one in found.notes), found.notes
    if said.get("off", PASSED) is not PASSED:
        assert not any("passes" in one for one in found.notes)


# --- how often --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unchanged", [OTHER, UNKNOWN])
def test_a_program_that_ends_in_another_way_when_it_is_run_again_blames_nobody(
    tmp_path: Path, unchanged: Match
) -> None:
    found = looked(tmp_path, unchanged=unchanged, eager=SAME)
    assert not found.summary.found
    assert "which is not how it ended before: which part of the compiler is to blame is not known" in found.notes[-1]


def test_one_rerun_that_passes_by_luck_blames_nobody(tmp_path: Path) -> None:
    reruns: list[Reruns] = []
    found = looked(tmp_path, reruns=reruns, unchanged=PASSED, eager=SAME)
    assert not found.summary.found
    assert found.notes[-1].startswith("unchanged, the program failed in 1 of 5 runs")
    assert "eager" not in reruns[0].runs, "nothing that it could say is worth its time"


def test_a_flaky_failure_is_blamed_after_as_many_passes_as_tell_it_from_luck(tmp_path: Path) -> None:
    """2 of 3 runs fail, so that three passes have a chance of one in 27."""
    reruns: list[Reruns] = []
    unchanged = [PASSED, SAME, SAME, SAME]
    found = looked(tmp_path, reruns=reruns, unchanged=unchanged, eager=SAME)
    assert [f.component for f in found.summary.found] == ["dynamo"]
    assert reruns[0].runs.count("unchanged") == 4, "4 of 5 runs fail"
    assert reruns[0].runs.count("off") >= 3


def test_a_variant_that_passes_only_once_is_not_believed(tmp_path: Path) -> None:
    found = looked(tmp_path, off=[PASSED, PASSED, SAME], eager=SAME)
    assert not found.summary.found
    assert "is not known" in found.notes[-1]


@pytest.mark.parametrize("blamed", [{"eager": SAME}, {"aot_eager": SAME}, {}])
def test_whom_it_blames_the_largest_change_that_passes_was_run_twice(tmp_path: Path, blamed: dict[str, Match]) -> None:
    reruns: list[Reruns] = []
    assert looked(tmp_path, reruns=reruns, **blamed).summary.found
    last = {"eager": "off", "aot_eager": "eager"}.get(next(iter(blamed), ""), _DECOMPOSED)
    assert reruns[0].runs.count(last) >= 2


# --- what a program that passed while it was compared is told --------------------------------------------------------


@pytest.mark.parametrize(
    ("gives", "note"),
    [
        ({"unchanged": PASSED}, "unchanged, the program failed in 1 of 5 runs"),
        ({"unchanged": SAME, "own draws": SAME}, "it compares random numbers"),
        ({"unchanged": SAME, "own draws": PASSED}, "it fails with what is in torch's caches"),
        ({"unchanged": SAME, "own draws": OTHER}, "why it passes then is not known"),
        ({"alone": UNKNOWN}, "run once more without comparing, it did not end in time"),
    ],
)
def test_why_it_passed_is_said_only_where_it_was_seen(tmp_path: Path, gives: dict[str, Any], note: str) -> None:
    found = looked(tmp_path, compared=0, **{"alone": PASSED, **gives})
    assert not found.summary.found
    assert note in found.notes[-1]
    told = [n for n in ("random numbers", "torch's caches") if n in found.notes[-1]]
    assert all(one in note for one in told)


# --- rounding ---------------------------------------------------------------------------------------------------------


def steps(*samples: float, operator: str = "aten.sum.default") -> tuple[Step, ...]:
    return tuple(Step(operator, "p.py:3: y = x.sum()", 1.2e-7, (1.0, one)) for one in samples)


@pytest.mark.parametrize("said", [{"eager": SAME}, {"aot_eager": SAME}, {_DECOMPOSED: SAME}, {}, {"excused": True}])
def test_a_program_that_makes_much_of_rounding_blames_nobody(tmp_path: Path, said: dict[str, Any]) -> None:
    more = {"steps": {0: steps(1.0, 1.0), 2: steps(1.0 + 1e-7, 3.0)}}
    found = looked(tmp_path, more=more, **{"nudged": SAME, **said})
    assert not found.summary.found
    assert found.in_eager is SAME
    assert "sensitive to rounding" in found.notes[-1]
    assert "2 units in the last place" in found.notes[-1]
    assert "aten.sum.default (p.py:3: y = x.sum()) makes a relative difference of 1.4" in found.notes[-1]


def test_one_of_several_nudges_is_enough(tmp_path: Path) -> None:
    found = looked(tmp_path, nudged=[PASSED, OTHER, SAME])
    assert not found.summary.found
    assert "16 units" in found.notes[-1]


def test_dynamos_graphs_in_eager_round_as_eager_does(tmp_path: Path) -> None:
    """A program that compares to the last bit fails under any nudge; what Dynamo loses is not rounding."""
    quiet = {"steps": {0: steps(1.0, 1.0), 2: steps(1.0 + 1e-7, 1.0 + 1e-7)}}
    assert [f.component for f in looked(tmp_path, nudged=SAME, eager=SAME, more=quiet).summary.found] == ["dynamo"]
    assert not looked(tmp_path, nudged=SAME, aot_eager=SAME, more=quiet).summary.found


def told(difference: float) -> ProgramEnd:
    text = f"AssertionError: Tensor-likes are not close!\n\nGreatest absolute difference: {difference} at index (0,)"
    return ProgramEnd(1, Uncaught(Fingerprint("AssertionError", "Tensor-likes are not close!"), text))


@pytest.mark.parametrize(("compiled", "blamed"), [(0.5, ["inductor"]), (2e-6, [])])
def test_what_is_much_further_from_eager_than_rounding_takes_it_is_no_rounding(
    tmp_path: Path, compiled: float, blamed: list[str]
) -> None:
    more = {"first": told(compiled), "nudged_end": told(1e-6)}
    found = looked(tmp_path, nudged=SAME, more=more)
    assert [f.component for f in found.summary.found] == blamed


def test_where_rounding_could_not_be_tried_nobody_is_blamed(tmp_path: Path) -> None:
    found = looked(tmp_path, nudged=UNKNOWN, aot_eager=SAME)
    assert not found.summary.found
    assert "not known" in found.notes[-1]


@pytest.mark.parametrize(
    ("code", "itself"), [(-6, True), (-11, True), (-9, False), (-15, False), (-2, False), (1, False)]
)
def test_a_program_that_dies_by_what_it_did_itself(code: int, itself: bool) -> None:
    assert died(code) is itself


@pytest.mark.parametrize(("exit_code", "tried"), [(1, True), (-11, False), (0, False)])
def test_a_program_that_died_only_when_it_was_compared_is_looked_at_as_it_fails(
    tmp_path: Path, exit_code: int, tried: bool
) -> None:
    crash = Failure(Kind.CRASH, Phase.RUN_FORWARD, Fingerprint("SIGSEGV"))
    found = Found(crash, None, Process(tmp_path, {}))
    assert one_by_one.died_only_when_compared(found, Ended(exit_code, 1.0)) is tried


@pytest.mark.parametrize(
    ("gives", "blamed", "note"),
    [
        ({}, "dynamo", "the program passes with compilation off; it dies before"),
        ({"off": SAME}, None, "it dies with compilation off, too"),
        ({"off": UNKNOWN}, "", "with compilation off, the program was not seen to end"),
        ({"off": OTHER}, "", "whether eager has this failure is not known"),
        ({"unchanged": PASSED}, "", "failed in 1 of 5 runs"),
    ],
)
def test_a_program_that_dies_before_there_is_a_graph(
    tmp_path: Path, gives: dict[str, Match], blamed: str | None, note: str
) -> None:
    """A component of "" is nobody: it is a death all the same, and its own file may prove more."""
    summary = Summary(1, 0, (), reference=Process(tmp_path, {}), exit_code=-11)
    again: Any = Reruns(summary, summary, summary, gives)
    looked = wrong_numbers.died_before_graphs(summary, 11, again, lambda _: None)
    assert note in looked.notes[0]
    if blamed is None:
        assert not looked.summary.found
    else:
        (found,) = looked.summary.found
        assert (found.component, found.failure.fingerprint.error) == (blamed, "SIGSEGV")


@pytest.mark.slow
def test_a_stack_that_tracing_overflows_is_told_as_such(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
        import sys, threading
        sys.setrecursionlimit(100_000)

        def deep(x, n):
            return x if n == 0 else deep(x, n - 1) + 1

        threading.stack_size(256 * 1024)
        for function in (deep, torch.compile(deep)):
            thread = threading.Thread(target=function, args=(torch.ones(2), 150))
            thread.start()
            thread.join()
        """,
    )
    ended = run_cli("run", "--no-minimize", "--out", tmp_path / "out", sys.executable, script)
    (found,) = json.loads((tmp_path / "out" / "result.json").read_text())["failures"]
    assert (found["kind"], found["component"]) == ("crash", "dynamo"), ended.stderr
    assert found["repro"]["verified"]


FAILURE = Failure(
    Kind.RUNTIME_ERROR,
    Phase.RUN_BACKWARD,
    Fingerprint("RuntimeError"),
    "RuntimeError: or set torch._functorch.config.donated_buffer=False to disable",
)


@pytest.mark.parametrize(
    ("found", "end", "helps"),
    [
        (PASSED, ProgramEnd(0, graphs=1), True),
        (SAME, ProgramEnd(1, graphs=1), False),
        (SAME, ProgramEnd(0, graphs=1, failures=(FAILURE,)), False),  # the program catches the error
        (PASSED, ProgramEnd(0, graphs=0), False),  # nothing was compiled
        (PASSED, ProgramEnd(0, graphs=1, failures=(replace(FAILURE, kind=Kind.HANG),)), False),
        (OTHER, ProgramEnd(1, graphs=1), False),
        (UNKNOWN, ProgramEnd(None), False),
    ],
)
def test_what_an_error_advises_is_a_workaround_only_where_it_was_seen_to_help(
    found: Match, end: ProgramEnd, helps: bool
) -> None:
    asked: list[Mapping[str, bool | int]] = []

    class Advised:
        def with_settings(self, settings: Mapping[str, bool | int], failure: Failure | None) -> RerunOutcome:
            asked.append(settings)
            assert failure is FAILURE
            return RerunOutcome(found, end)

    again: Any = Advised()
    finding = one_by_one.as_advised(Finding("f1", FAILURE), again, lambda _: None)
    assert asked == [{"torch._functorch.config.donated_buffer": False}]
    wanted = "import torch._functorch.config\ntorch._functorch.config.donated_buffer = False"
    assert finding.workaround == (wanted if helps else None)
