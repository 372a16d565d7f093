"""What is said of a failure where the work on it was cut short: what ended it, and only what was seen until then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from test_own_faults import FAILURE, NOT_ALONE, Again, concluded, given, seen, with_repro
from torchsleuth.case.failure import Phase, of_hang
from torchsleuth.commands import pipeline
from torchsleuth.commands.interruption import Cause
from torchsleuth.commands.pipeline import Settings
from torchsleuth.commands.run import Run
from torchsleuth.commands.verdict import told_of_suspect
from torchsleuth.investigate.placing import STOPPED
from torchsleuth.investigate.program_end import ProgramEnd
from torchsleuth.investigate.rerun import RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.watch import hangs, launcher
from torchsleuth.watch.hangs import Alone
from torchsleuth.watch.launcher import Ended
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import RunVerdict

__all__ = ["given"]


def cut(run: Run, cause: Cause, then: Callable[[Finding], Finding] = lambda f: f) -> Callable[[Finding], Finding]:
    """An investigation in the middle of which the work is ended."""
    run.interruption.begin(60.0)

    def look(finding: Finding) -> Finding:
        run.interruption.stop(cause)
        return then(replace(finding, why_not="as compile: harness-error cancelled"))

    return look


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause.BUDGET, "the budget of 60 s was spent"),
        (Cause.CTRL_C, "stopped by Ctrl-C"),
        (Cause.SIGTERM, "stopped by SIGTERM"),
    ],
)
def test_what_was_cut_short_is_not_known_and_what_ended_it_is_said(
    given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause, said: str
) -> None:
    result = concluded(given, seen(tmp_path, FAILURE), monkeypatch, f1=cut(given, cause))
    assert result.verdict is RunVerdict.NOT_REPRODUCED
    assert result.findings[0].why_not == f"{said} before it was known"
    assert f"{said}: not all that was found was looked into" in result.notes


def test_what_is_verified_stays_so(given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = concluded(given, seen(tmp_path, FAILURE), monkeypatch, f1=cut(given, Cause.BUDGET, with_repro))
    assert result.verdict is RunVerdict.FAILURE
    assert result.findings[0].why_not == ""


def test_what_was_known_before_is_told_too(given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given.interruption.begin(60.0)

    def in_eager() -> RerunOutcome:
        given.interruption.stop(Cause.BUDGET)
        return RerunOutcome(Match.UNKNOWN, ProgramEnd(None))

    given = replace(given, again=Again(without_compiling=in_eager, with_settings=None))  # type: ignore[arg-type]
    result = concluded(given, seen(tmp_path, FAILURE), monkeypatch, f1=lambda finding: finding)
    assert result.findings[0].why_not == f"{NOT_ALONE}; the budget of 60 s was spent before more was known"


def test_a_script_that_was_not_verified_for_it_says_what_ended_it(
    given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unverified(finding: Finding) -> Finding:
        placed = with_repro(finding)
        assert placed.repro is not None
        return replace(placed, repro=replace(placed.repro, verified=False, reason=STOPPED))

    result = concluded(given, seen(tmp_path, FAILURE), monkeypatch, f1=cut(given, Cause.BUDGET, unverified))
    repro = result.findings[0].repro
    assert repro is not None
    assert repro.reason == "the budget of 60 s was spent before it was known"


def test_the_work_has_what_is_left_of_the_budget(given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of the program once more have spent some of it."""
    budgets: list[float] = []
    given.interruption.begin(50.0)
    given = replace(given, settings=replace(given.settings, budget=600.0))

    class Asked(pipeline.Plan):
        def __init__(self, minimize: bool, budget: float, *more: Any) -> None:
            budgets.append(budget)
            super().__init__(minimize, budget, *more)

    monkeypatch.setattr("torchsleuth.commands.one_by_one.Plan", Asked)
    concluded(given, seen(tmp_path, FAILURE), monkeypatch, f1=with_repro)
    assert budgets == [pytest.approx(50.0, abs=5)]


HANG = Finding("f1", of_hang(Phase.RUN_FORWARD), why_not="as compile: harness-error cancelled")


@pytest.mark.parametrize(
    ("ended", "how"),
    [
        (Ended(-2, 90.0, interrupted=True), "it was stopped with Ctrl-C"),
        (Ended(-15, 90.0, terminated="SIGTERM"), "it was stopped with SIGTERM"),
        (Ended(-9, 90.0), "the program ended with -9"),
    ],
)
def test_of_a_stage_that_had_not_ended_nobody_knows_whether_it_hangs(ended: Ended, how: str) -> None:
    told = told_of_suspect(HANG, ended)
    said = f"was still running when {how}; whether it hangs is not known"
    assert told.failure.summary == said, "and not: It never ends"
    assert told.why_not == f"{said}; {HANG.why_not}"


def test_a_hang_that_was_confirmed_is_one() -> None:
    assert told_of_suspect(HANG, Ended(-15, 90.0, stopped=True)) is HANG
    reproduced = with_repro(HANG)
    assert told_of_suspect(reproduced, Ended(-2, 90.0, interrupted=True)) is reproduced


@pytest.mark.parametrize("suspect", [False, True])
def test_only_a_suspect_is_told_so(given: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suspect: bool) -> None:
    ran = seen(tmp_path, of_hang(Phase.RUN_FORWARD), exit_code=-2, suspect=suspect)
    ran = replace(ran, ended=replace(ran.ended, interrupted=True))
    result = concluded(given, ran, monkeypatch, f1=lambda finding: finding)
    assert ("whether it hangs is not known" in result.findings[0].failure.summary) is suspect


def test_a_program_that_is_sent_sigterm_with_the_tool_is_not_looked_into_at_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends a job waits only some seconds for it."""
    begun: list[object] = []
    monkeypatch.setattr(pipeline, "Again", lambda *given: begun.append(given))
    monkeypatch.setattr(launcher, "run", lambda *_, **__: Ended(143, 5.0, terminated="SIGTERM"))
    result, out = pipeline.run([sys.executable, "-c", ""], Settings(out=tmp_path / "out"), lambda _: None)
    assert begun == []
    assert "the program was sent SIGTERM, as the tool was" in result.notes
    assert (out / "result.json").exists()


STUCK = """
import json, os, pathlib, struct, sys, time
process = pathlib.Path(os.environ["TORCHSLEUTH_WATCH"]) / "processes" / "1-1"
process.mkdir(parents=True)
(process / "stage").write_bytes(struct.pack("<IIdd", 3, 1, time.time() - 100, 1.0))
(process / "hello.json").write_text(json.dumps({"pid": os.getpid(), "executable": sys.executable}))
time.sleep(600)
"""


def test_a_stuck_interpreter_that_was_seen_to_hang_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not say so itself: the watchdog is a thread of that interpreter."""
    monkeypatch.setattr(hangs, "_STUCK_AFTER", 0.0)
    monkeypatch.setattr(pipeline._HangJudge, "confirm", lambda *_: Alone.HANGS)
    settings = Settings(out=tmp_path / "out", hang_after=0.1, rerun=False)
    result, _ = pipeline.run([sys.executable, "-c", STUCK], settings, lambda _: None)
    assert [finding.failure for finding in result.findings] == [of_hang(Phase.RUN_FORWARD)]
    assert "the program was ended by torchsleuth: a Case of it, run alone, did not end either" in result.notes


def test_where_running_it_again_was_cut_short_that_is_said(tmp_path: Path) -> None:
    slow = "import time; time.sleep(600)"
    runs = tmp_path / "runs"
    program = f"import os, sys; os.path.exists({str(runs)!r}) and exec({slow!r}); open({str(runs)!r}, 'w'); sys.exit(3)"
    fails = f"""
import json, os, pathlib, sys
process = pathlib.Path(os.environ["TORCHSLEUTH_WATCH"]) / "processes" / "1-1"
process.mkdir(parents=True)
(process / "hello.json").write_text(json.dumps({{"pid": 1, "executable": sys.executable}}))
(process / "events.jsonl").write_text(json.dumps({{"event": "graph", "number": 1}}) + chr(10))
{program}
"""
    (tmp_path / "program.py").write_text(fails)
    settings = Settings(out=tmp_path / "out", budget=2.0)
    result, _ = pipeline.run([sys.executable, str(tmp_path / "program.py")], settings, lambda _: None)
    assert (
        "the budget of 2 s was spent while the program was run again to see why it failed: that is not known"
        in result.notes
    )
