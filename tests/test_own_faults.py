"""Faults of torchsleuth's own after the program has ended: the result is written, and does not look like another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.commands import conclusion, one_by_one, pipeline
from torchsleuth.commands.conclusion import conclude
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.run import Run, Seen, Settings
from torchsleuth.errors import BadUsage, OutputUnwritable
from torchsleuth.investigate import wrong_numbers
from torchsleuth.investigate.own_faults import LOG, Faults, OwnFault, told_apart
from torchsleuth.investigate.program_end import ProgramEnd
from torchsleuth.investigate.rerun import RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component
from torchsleuth.watch.found import Found, Summary
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Process
from torchsleuth.write.findings import Finding, Repro
from torchsleuth.write.result import Result, RunVerdict

FAILURE = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("ValueError", "no kernel"))
CRASH = Failure(Kind.CRASH, Phase.COMPILE_FORWARD, Fingerprint("SIGSEGV"))
NOT_ENDED = RerunOutcome(Match.UNKNOWN, ProgramEnd(None))
NOT_ALONE = "it ran to its end without failing"


def ours() -> Any:
    raise KeyError("ours")


class Looks:
    """In the place of an investigation: finds what it is told to."""

    finds: dict[str, Callable[[Finding], Finding]]

    def __init__(self, *_: object) -> None:
        self.from_source_asked: list[str] = []

    def __enter__(self) -> Looks:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put away."""

    def cancel(self) -> None:
        """Nothing is under way."""

    def look_into(self, found: Found, name: str, *, first: bool, others: int = 0) -> Finding:
        return self.finds[name](Finding(name, found.failure, why_not=NOT_ALONE))

    def from_source(self, finding: Finding, found: Found, *, first: bool) -> Finding:
        return replace(finding, not_known=(*finding.not_known, "its own file was tried"))


class Again:
    """The program once more, as the test says that it goes; what is not said is a fault."""

    def __init__(self, **says: Any) -> None:
        self._says = says
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(*_: Any, **__: Any) -> Any:
            self.asked.append(name)
            says = self._says[name]
            return says() if callable(says) else says

        return answer


@pytest.fixture
def given(tmp_path: Path) -> Run:
    (tmp_path / "logs" / "watch").mkdir(parents=True)
    return Run(("python", "train.py"), tmp_path, Settings(), lambda _: None, Interruption(), Faults(tmp_path))


def seen(tmp_path: Path, *failures: Failure, exit_code: int = 1, **more: Any) -> Seen:
    process = Process(tmp_path, {"executable": sys.executable})
    found = tuple(Found(replace(f, fingerprint=f.fingerprint), None, process, **more) for f in failures)
    return Seen(Summary(1, 1, found, reference=process, exit_code=exit_code), Ended(exit_code, 1.0))


def with_repro(finding: Finding) -> Finding:
    return replace(
        finding, repro=Repro(Path("repro.py"), "", "torch.compile", 1, ("torch",), 0, True, 3, 3), why_not=""
    )


def concluded(given: Run, seen: Seen, monkeypatch: pytest.MonkeyPatch, **finds: Callable[[Finding], Finding]) -> Result:
    class Finds(Looks):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            self.finds = finds

    monkeypatch.setattr(one_by_one, "Contained", Finds)
    result = conclude(given, seen)
    data = json.loads((given.out / "result.json").read_text())
    assert (data["verdict"], data["notes"]) == (result.verdict.value, list(result.notes))
    return result


def log(given: Run) -> str:
    return (given.out / LOG).read_text()


def itself(finding: Finding) -> Finding:
    return finding


# --- each failure is looked into --------------------------------------------------------------------------------------


def test_a_fault_while_the_program_runs_once_more_loses_nothing(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again: Any = Again(without_compiling=ours)
    looked = seen(given.out, FAILURE, replace(FAILURE, phase=Phase.RUN_FORWARD))
    result = concluded(replace(given, again=again), looked, monkeypatch, f1=itself, f2=with_repro)
    assert [f.reproduced for f in result.findings] == [False, True]
    assert result.findings[0].why_not == NOT_ALONE
    assert result.findings[0].not_known == ("its own file was tried",), "and it goes on"
    assert result.verdict is RunVerdict.FAILURE
    told = "torchsleuth itself failed while running the program once more, for f1 (KeyError: 'ours'); see "
    assert f"{told}{LOG}, and please report it" in result.notes
    assert "in ours\n    raise KeyError" in log(given)
    assert (given.out / "issue.md").exists()
    assert (given.out / "report.html").exists()


def test_a_fault_that_ends_the_whole_investigation_keeps_what_was_reproduced(
    given: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = seen(given.out, FAILURE, CRASH)
    result = concluded(given, looked, monkeypatch, f1=with_repro, f2=lambda _: ours())
    assert [f.reproduced for f in result.findings] == [True, False]
    assert result.findings[1].id == "f2"
    assert result.findings[1].failure == CRASH
    assert result.findings[1].why_not == "torchsleuth itself failed before this was looked into"
    assert result.verdict is RunVerdict.FAILURE
    assert "KeyError: 'ours'" in log(given)


def test_a_process_that_did_not_say_what_it_is_does_not_cost_the_result(
    given: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = seen(given.out, FAILURE)
    nobody = replace(looked.summary.found[0], process=Process(given.out, {}))
    result = concluded(given, replace(looked, summary=replace(looked.summary, found=(nobody,))), monkeypatch)
    assert result.verdict is RunVerdict.NOT_REPRODUCED
    assert "KeyError: 'executable'" in log(given)


@pytest.mark.parametrize(("page", "name"), [("run_page", "report.html"), ("write_issue", "issue.md")])
def test_a_page_that_cannot_be_made_does_not_cost_the_result(
    given: Run, monkeypatch: pytest.MonkeyPatch, page: str, name: str
) -> None:
    monkeypatch.setattr(conclusion, page, lambda *_: ours())
    result = concluded(given, seen(given.out, FAILURE), monkeypatch, f1=with_repro)
    assert result.verdict is RunVerdict.FAILURE
    assert any(f"while writing {name} (KeyError: 'ours')" in note for note in result.notes)
    assert not (given.out / name).exists()
    assert not given.session.exists()


def test_what_watching_had_logged_stays_beside_it(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (given.session / "trouble.log").write_text("of watching\n")
    again: Any = Again(without_compiling=ours)
    concluded(replace(given, again=again), seen(given.out, FAILURE), monkeypatch, f1=itself)
    assert "KeyError: 'ours'" in log(given)
    assert log(given).endswith("of watching\n")


def test_a_full_disk_is_said_as_such(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutputUnwritable("Cannot write.")

    monkeypatch.setattr(conclusion.files, "write_json", full)
    with pytest.raises(OutputUnwritable):
        concluded(given, seen(given.out, FAILURE), monkeypatch, f1=itself)


# --- what was not seen to end in eager --------------------------------------------------------------------------------


def test_where_eager_was_not_seen_to_end_nobody_is_blamed(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(without_compiling=NOT_ENDED)
    started: Any = again
    result = concluded(replace(given, again=started), seen(given.out, FAILURE), monkeypatch, f1=itself)
    assert again.asked == ["without_compiling"], "what fails with its graphs in eager may be its own fault"
    [finding] = result.findings
    assert (finding.component, finding.eager_fails_too) == (Component.UNKNOWN, False)
    assert wrong_numbers.EAGER_NOT_SEEN_TO_END in result.notes
    assert finding.not_known == ("its own file was tried",)
    assert result.verdict is RunVerdict.NOT_REPRODUCED


def test_nor_is_what_a_judge_saw_of_eager_taken_back(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_too(finding: Finding) -> Finding:
        return replace(finding, eager_fails_too=True, why_not="eager itself fails: ValueError")

    again: Any = Again(without_compiling=NOT_ENDED)
    result = concluded(replace(given, again=again), seen(given.out, FAILURE), monkeypatch, f1=fails_too)
    assert result.findings[0].eager_fails_too


def test_a_death_before_there_was_a_graph_says_that_eager_did_not_end(
    given: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: Any = Again(without_compiling=NOT_ENDED)
    looked = seen(given.out, CRASH, exit_code=-11)
    [finding] = concluded(replace(given, again=again), looked, monkeypatch, f1=itself).findings
    assert finding.why_not.endswith("with compilation off the program was not seen to end")


def test_values_are_looked_for_all_the_same(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(without_compiling=NOT_ENDED, crash_with_values=None)
    looked = seen(given.out, CRASH, exit_code=-11)
    with_case = replace(looked.summary.found[0], case=given.out)
    looked = replace(looked, summary=replace(looked.summary, found=(with_case,)))
    started: Any = again
    [finding] = concluded(replace(given, again=started), looked, monkeypatch, f1=itself).findings
    assert again.asked == ["without_compiling", "crash_with_values"]
    assert finding.why_not == NOT_ALONE


def test_what_died_only_when_it_was_compared_is_not_blamed_either(given: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(without_compiling=NOT_ENDED)
    started: Any = again
    looked = seen(given.out, CRASH, inside="kernels")
    result = concluded(replace(given, again=started), looked, monkeypatch, f1=itself)
    assert again.asked == ["without_compiling"]
    assert wrong_numbers.EAGER_NOT_SEEN_TO_END in result.notes


def test_that_nothing_failed_is_not_said_of_what_was_not_seen(given: Run) -> None:
    assert "and nothing that torch.compile did was seen to fail" in conclude(given, seen(given.out)).notes[0]


# --- what nothing contains --------------------------------------------------------------------------------------------


def test_it_is_told_apart_from_a_result(tmp_path: Path) -> None:
    with pytest.raises(OwnFault) as caught, told_apart(tmp_path):
        ours()
    assert caught.value.exit_status == 70
    said = str(caught.value)
    assert said.startswith(
        "this is a fault of torchsleuth's own (KeyError: 'ours'), and says nothing about your program"
    )
    assert f"The traceback is in {tmp_path / LOG}, and what was found until then is in {tmp_path}." in said
    assert "KeyError: 'ours'" in (tmp_path / LOG).read_text()


@pytest.mark.parametrize("error", [BadUsage("x"), OSError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_what_is_none_of_ours_is_left_as_it_is(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, told_apart(tmp_path):
        raise error
    assert caught.value is error
    assert not (tmp_path / LOG).exists()


def test_where_it_cannot_be_written_down_it_goes_on_up(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(KeyError), told_apart(tmp_path):
        ours()
    faults = Faults(tmp_path)
    assert faults.keep("known", "testing", ours) == "known"
    assert faults.notes == ("torchsleuth itself failed while testing (KeyError: 'ours'); its log could not be written",)


def test_a_run_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "summarise", lambda *_: ours())
    with pytest.raises(OwnFault):
        pipeline.run([sys.executable, "-c", ""], Settings(out=tmp_path / "out"), lambda _: None)
    assert "KeyError: 'ours'" in (tmp_path / "out" / LOG).read_text()


def test_a_fault_in_what_is_looked_at_first_leaves_the_program_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.cuda_graphs, "overwritten", lambda _: ours())
    result, _ = pipeline.run([sys.executable, "-c", "raise SystemExit(3)"], Settings(out=tmp_path / "out"), print)
    assert (result.exit_code, result.verdict) == (3, RunVerdict.NOT_WATCHED)
    assert any("while running the program once more (KeyError: 'ours')" in note for note in result.notes)


CLI = """
import sys
from torchsleuth.cli import main, run
def fails(*_, **__):
    raise {error}
run.command.callback = fails
main(["run", "true"])
"""


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        ("KeyError('ours')", 70, "torchsleuth: this is a fault of torchsleuth's own"),
        ("SystemExit(5)", 5, ""),
        ("KeyboardInterrupt", 130, "torchsleuth: interrupted"),
        ("BrokenPipeError(32, 'Broken pipe')", 141, ""),
        ("OSError(28, 'No space left on device')", 2, "torchsleuth: No space left on device"),
    ],
)
def test_the_exit_status_is_no_verdict(error: str, status: int, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", CLI.format(error=error)], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in done.stderr
    assert ("KeyError: 'ours'" in done.stderr) is (status == 70)


@pytest.mark.parametrize("error", ["KeyError('ours')", "BrokenPipeError(32, 'Broken pipe')", "OSError(28, 'No space')"])
def test_nor_where_nobody_reads_what_is_printed(error: str) -> None:
    read, write = os.pipe()
    source = "print('of the program', end='')\n" + CLI.format(error=error)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen([sys.executable, "-c", source], stdout=write, stderr=write, env=buffered)
    os.close(write)
    os.close(read)
    assert process.wait(30) == (70 if "ours" in error else 141 if "Broken" in error else 2)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_each_ctrl_c_ends_what_runs_once_more_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Callable[[], None]] = []
    monkeypatch.setattr(Interruption, "ends", lambda _, end: asked.append(end))
    pipeline.run([sys.executable, "-c", "raise SystemExit(3)"], Settings(out=tmp_path / "out"), print)
    assert [getattr(end, "__qualname__", "") for end in asked] == ["Again.end"]


# --- the steps, while the program runs --------------------------------------------------------------------------------


def test_steps_are_plain_lines_while_the_program_has_the_terminal(tmp_path: Path) -> None:
    source = """
import json, os, pathlib, time
process = pathlib.Path(os.environ["TORCHSLEUTH_WATCH"]) / "processes" / "1-1"
process.mkdir(parents=True)
step = {"begins": "dynamo", "at": 0.0, "thread": 1}
(process / "steps.jsonl").write_text(json.dumps(step) + "\\n")
time.sleep(1)
"""

    class Terminal:
        def __init__(self) -> None:
            self.lines: list[str] = []
            self.live: list[str] = []

        def __call__(self, text: str) -> None:
            self.live.append(text)

        def line(self, text: str) -> None:
            self.lines.append(text)

    terminal = Terminal()
    pipeline.run([sys.executable, "-c", source], Settings(out=tmp_path / "out", log="steps"), terminal)
    assert [line.split()[-1] for line in terminal.lines] == ["dynamo"]
    assert terminal.live == []
