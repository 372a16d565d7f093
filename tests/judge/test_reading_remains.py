"""From what a trial left behind to its outcome: every combination of last step and ending."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.judge import Outcome, Trial, Verdict, deadline_for
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.order import Cause, Ending, Order, Stage, read_report, read_tail
from torchsleuth.judge.outcome import of_exit
from torchsleuth.judge.reading import how_it_ended, judge_remains, read_outcome

PHASE = Phase.RUN_FORWARD
FAILURE = Failure(Kind.RUNTIME_ERROR, PHASE, Fingerprint("ValueError", "size N"), "Traceback ...")
OK = Ending(Cause.EXITED)
EAGER: list[dict[str, Any]] = [{"event": "eager-began"}, {"event": "eager-passed", "seconds": 0.5}]
COMPILING: list[dict[str, Any]] = [*EAGER, {"event": "compiled-began"}]


def remains(ending: Ending | None, events: list[dict[str, Any]], output: str = "") -> Outcome:
    return judge_remains(ending, events, output, PHASE)


def test_passed() -> None:
    outcome = remains(OK, [*COMPILING, {"event": "compiled-passed", "seconds": 2.5}], "printed")
    assert outcome == Outcome(Verdict.PASSED, None, "", 2.5, 0.5, "printed")


def test_failed_with_an_exception() -> None:
    outcome = remains(OK, [*COMPILING, {"event": "compiled-failed", "seconds": 1.0, "failure": FAILURE.to_json()}])
    assert outcome == Outcome(Verdict.FAILED, FAILURE, "ValueError: size N", 1.0, 0.5, "")


def test_eager_that_raised_is_invalid_and_carries_no_failure() -> None:
    outcome = remains(OK, [EAGER[0], {"event": "eager-failed", "seconds": 1.0, "failure": FAILURE.to_json()}])
    assert (outcome.verdict, outcome.failure) == (Verdict.INVALID, None)
    assert outcome.reason == "eager itself fails: ValueError: size N"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("NameError", "the script is ill-formed: NameError: size N"),
        ("ModuleNotFoundError", "the script is ill-formed: ModuleNotFoundError: size N"),
        ("torchsleuth.judge.invariants.BrokenInvariant", "no correct program makes such a tensor"),
    ],
)
def test_a_script_that_is_broken_is_not_told_as_a_fault_of_eager(error: str, says: str) -> None:
    failure = replace(FAILURE, fingerprint=replace(FAILURE.fingerprint, error=error))
    outcome = remains(OK, [EAGER[0], {"event": "eager-failed", "seconds": 1.0, "failure": failure.to_json()}])
    assert (outcome.verdict, outcome.failure) == (Verdict.INVALID, None)
    assert outcome.reason.startswith(says)


@pytest.mark.parametrize(
    ("ending", "output", "error", "kind"),
    [
        (Ending(Cause.DEADLINE), "", "hang", Kind.HANG),
        (Ending(Cause.MEMORY), "", "memory limit", Kind.OUT_OF_MEMORY),
        (Ending(Cause.EXITED, -9), "", "memory limit", Kind.OUT_OF_MEMORY),
        (Ending(Cause.EXITED, -11), "", "SIGSEGV", Kind.CRASH),
        (Ending(Cause.EXITED, -14), "Stack (most recent call first):", "hang", Kind.HANG),
        (Ending(Cause.EXITED, -6), "Timeout (0:00:01)!", "SIGABRT", Kind.CRASH),
        (Ending(Cause.EXITED, 1), "Timeout (0:00:01)!\nThread ...", "hang", Kind.HANG),
        (Ending(Cause.EXITED, 1), "", "exit 1", Kind.RUNTIME_ERROR),
        (Ending(Cause.EXITED, 0), "Timeout (0:00:01)!", "exit 0", Kind.RUNTIME_ERROR),
    ],
)
class TestAnEndingWithoutAWord:
    def test_while_compiled_code_ran_is_a_failure(self, ending: Ending, output: str, error: str, kind: Kind) -> None:
        outcome = remains(ending, COMPILING, output)
        assert outcome.verdict is Verdict.FAILED
        assert outcome.failure is not None
        assert (outcome.failure.fingerprint, outcome.failure.kind) == (Fingerprint(error), kind)
        assert outcome.failure.text == output
        assert outcome.reason == error

    def test_while_eager_ran_makes_it_invalid_unless_a_limit_of_ours_ended_it(
        self, ending: Ending, output: str, error: str, kind: Kind
    ) -> None:
        outcome = remains(ending, EAGER[:1], output)
        limited = ending.cause is not Cause.EXITED or ending.status == -9
        assert (outcome.verdict, outcome.failure) == (Verdict.UNKNOWN if limited else Verdict.INVALID, None)
        said = "eager was stopped by a limit of the judge: " if limited else f"eager itself fails: {error}"
        assert outcome.reason.startswith(said)

    def test_before_anything_ran_says_nothing(self, ending: Ending, output: str, error: str, kind: Kind) -> None:
        outcome = remains(ending, [], output)
        assert (outcome.verdict, outcome.failure) == (Verdict.UNKNOWN, None)

    def test_between_the_runs_says_nothing(self, ending: Ending, output: str, error: str, kind: Kind) -> None:
        assert remains(ending, EAGER, output).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("events", [[], EAGER[:1], EAGER, COMPILING])
def test_what_was_cancelled_says_nothing(events: list[dict[str, Any]]) -> None:
    outcome = remains(Ending(Cause.CANCELLED), events)
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "cancelled")


@pytest.mark.parametrize("events", [[], EAGER[:1], EAGER, COMPILING])
def test_a_warden_that_died_says_nothing(events: list[dict[str, Any]]) -> None:
    assert remains(None, events).verdict is Verdict.UNKNOWN


def test_a_result_counts_even_if_the_warden_died_after_it() -> None:
    assert remains(None, [*COMPILING, {"event": "compiled-passed", "seconds": 2.5}]).verdict is Verdict.PASSED


def test_a_fault_of_our_own_says_nothing_and_shows_itself() -> None:
    outcome = remains(OK, [*COMPILING, {"event": "harness-error", "text": "our traceback"}])
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "our traceback")


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        (Ending(Cause.NEVER_BEGAN), "never-began"),
        (Ending(Cause.EXITED, -11), "ended by SIGSEGV"),
        (Ending(Cause.EXITED, 3), "exit status 3"),
    ],
)
def test_a_trial_that_never_began_says_how_it_ended(ending: Ending, says: str) -> None:
    assert remains(ending, []).reason == f"the trial ended before it began: {says}"


def test_an_exit_is_labelled_by_its_phase() -> None:
    assert of_exit(3, Phase.COMPILE_BACKWARD).kind is Kind.COMPILE_ERROR
    assert of_exit(3, Phase.RUN_BACKWARD, "text") == Failure(
        Kind.RUNTIME_ERROR, Phase.RUN_BACKWARD, Fingerprint("exit 3"), "text"
    )


def test_evidence_is_kept_with_a_crash() -> None:
    assert how_it_ended(Ending(Cause.EXITED, -11), "Fatal Python error", PHASE).text == "Fatal Python error"


def order(work: Path) -> Order:
    return Order(str(work), "/x/repro.py", Phase.COMPILE_BACKWARD, (Stage.EAGER, Stage.COMPILED), "/c", 1.5, 1 << 40)


def test_an_order_survives_the_wire(tmp_path: Path) -> None:
    sent = order(tmp_path)
    assert sent.to_line().count(b"\n") == 1
    assert Order.from_line(sent.to_line()) == sent
    assert Order.from_line(json.dumps(asdict(sent))) == sent
    assert sent.only(Stage.COMPILED).stages == (Stage.COMPILED,)


def test_an_ending_survives_the_disk(tmp_path: Path) -> None:
    path = str(tmp_path / "ending.json")
    assert Ending.read(path) is None
    ending = Ending(Cause.MEMORY, -9, 1.25, 12345)
    ending.write(path)
    assert Ending.read(path) == ending
    assert [entry.name for entry in tmp_path.iterdir()] == ["ending.json"]


@pytest.mark.parametrize("limits", [None, Limits(2.0, 100, 3.0)])
def test_a_launch_survives_the_wire(limits: Limits | None) -> None:
    launch = Launch(("python", "-c", "print('\n')"), {"A": "1\n2"}, "/f", "/o", limits, "/e" if limits else None)
    assert launch.to_line().count(b"\n") == 1
    assert Launch.from_line(launch.to_line()) == launch


def test_a_report_that_was_cut_off_keeps_what_was_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    assert read_report(str(path)) == []
    path.write_text('{"event": "eager-began"}\n{"event": "eager-pass')
    assert read_report(str(path)) == [{"event": "eager-began"}]


def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "output.txt"
    assert read_tail(str(path)) == ""
    path.write_bytes(b"a" * 5000 + b"\xff" + b"z" * 5)
    assert read_tail(str(path), 6) == "\ufffdzzzzz"
    assert len(read_tail(str(path))) == 5006


def test_an_outcome_is_read_from_the_folder_of_its_order(tmp_path: Path) -> None:
    asked = order(tmp_path)
    Path(asked.report).write_text("".join(json.dumps(event) + "\n" for event in COMPILING))
    Path(asked.output).write_text("said")
    Ending(Cause.EXITED, -11, 3.0).write(asked.ending)
    outcome = read_outcome(asked)
    assert outcome.failure == Failure(Kind.CRASH, Phase.COMPILE_BACKWARD, Fingerprint("SIGSEGV"), "said")
    assert (outcome.seconds, outcome.eager_seconds) == (3.0, 0.5)


def test_a_deadline_is_generous_and_grows_with_the_first_run() -> None:
    assert [deadline_for(seconds) for seconds in (0.0, 3.0, 3.1, 60.0)] == [30.0, 30.0, 31.0, 600.0]


def test_a_trial_knows_where_its_script_stands(tmp_path: Path) -> None:
    trial = Trial("pass", tmp_path)
    assert trial.script == tmp_path / "repro.py"
    assert (trial.deadline, trial.memory_limit, trial.cache_runs) == (30.0, None, 1)
