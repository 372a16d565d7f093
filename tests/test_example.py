"""A small script for one break or recompilation, with a judge that reads the text in the place of running it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.commands.asking import Asking, Cause, shows
from torchsleuth.commands.example import Example, Means, example
from torchsleuth.explain.observed import Observed, guard_key, raised, recorded
from torchsleuth.explain.recorder import BREAKS, RECOMPILES, recorder
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.reduce.journal import Journal

BREAK = """Graph break in user code at /x/program.py:3
Graph Break Reason: Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']
  Hint: Avoid calling builtin `print`.

  Developer debug context: builtin print [...] False
"""
ERROR = "torch._dynamo.exc.Unsupported: " + BREAK.partition("Graph Break Reason: ")[2]
AGAIN = """Recompiling function h in /x/a.py:16
    triggered by the following guard failure(s):
    - 0/1: tensor 'x' size mismatch at index 0. expected 3, actual 4
    - 0/0: s == 0.5                 # def h(x,s): return x*s  # a.py:16 in h
    - User stack trace:
    -   File "/x/a.py", line 16, in h"""
PROGRAM = """import torch
unused = 1

@torch.compile
def f(x):
    y = x + 1
    print("hi")
    return y

f(2)
"""
CAUSE = Cause(True, "print()", "print()", "program.py:7")


def test_what_torch_tells_is_read(tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert recorded(record) == Observed()
    said = [(BREAKS, BREAK), (RECOMPILES, AGAIN)]
    record.write_text("".join(json.dumps(pair) + "\n" for pair in said))
    size = "tensor 'x' size mismatch at index 0"
    assert recorded(record) == Observed(frozenset({"print()"}), frozenset({size, "s"}))
    assert (guard_key(size), guard_key("s == 0.75")) == (size, "s")


def test_errors_tell_the_same() -> None:
    assert raised(f"Traceback ...\n{ERROR}").breaks == {"print()"}
    assert "s" in raised(f"torch._dynamo.exc.RecompileError: {AGAIN}").recompiles
    assert raised("ValueError: print") == Observed()


class Killed(BaseException):
    """As kill -9 ends the tool."""


class ReadingJudge:
    """Breaks: the program calls print."""

    judged = 0

    def __init__(self, judgements: int = 10_000) -> None:
        self.asked: list[str] = []
        self._left = judgements

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        outcomes = []
        for number, trial in enumerate(trials):
            if self._left == 0:
                raise Killed
            self._left -= 1
            program = (trial.folder / "program.py").read_text()
            assert str(trial.folder / "record") in trial.source
            if "print('hi')" in program or "print()" in program:
                (trial.folder / "record").write_text(json.dumps([BREAKS, BREAK]) + "\n")
            outcomes.append(Outcome(Verdict.PASSED))
            self.asked.append(program)
            if heard is not None:
                heard(number, outcomes[-1])
        return outcomes


def made(tmp_path: Path, fresh: Any, text: str = PROGRAM, judge: Any = None) -> Example | str:
    asking = Asking(judge or ReadingJudge(), tmp_path, Journal(tmp_path / "journal.jsonl"), [tmp_path / "program"])
    means = Means(asking, fresh, 30.0, 1, lambda: False, lambda _: None)
    return example(text, CAUSE, tmp_path / "out" / "break-1.py", "torch 2.13.0", float("inf"), means)


def test_the_smallest_script_raises_the_break(tmp_path: Path) -> None:
    def fresh(script: Path) -> Outcome:
        assert "fullgraph=True" in script.read_text() or "runpy" in script.read_text()
        failure = Failure(Kind.DYNAMO_ERROR, Phase.RUN_FORWARD, Fingerprint("Unsupported", "x"), text=ERROR)
        return Outcome(Verdict.FAILED, failure)

    # The toy judge does not run the text, so that nothing but the call of print is needed.
    found = made(tmp_path, fresh)
    assert isinstance(found, Example)
    assert found.raises
    assert found.path.read_text() == found.text
    assert "print()" in found.text
    assert "unused" not in found.text
    assert "y = x + 1" not in found.text


def test_a_script_that_no_fresh_process_confirms_is_not_written(tmp_path: Path) -> None:
    found = made(tmp_path, lambda script: Outcome(Verdict.PASSED))
    assert isinstance(found, str)
    assert not (tmp_path / "out").exists()


def test_a_program_that_does_not_show_it_alone(tmp_path: Path) -> None:
    found = made(tmp_path, lambda script: Outcome(Verdict.PASSED), text="import torch\n")
    assert found == "the program's file, run alone, does not show it"


class EndlessJudge:
    """No run comes to its end."""

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        return [Outcome(Verdict.UNKNOWN, reason="out of time after 30 s") for _ in trials]


def test_a_run_that_did_not_end_has_shown_nothing(tmp_path: Path) -> None:
    judge: Any = EndlessJudge()
    asking = Asking(judge, tmp_path, Journal(), [])
    means = Means(asking, lambda script: Outcome(Verdict.PASSED), 30.0, 1, lambda: False, lambda _: None)
    found = example(PROGRAM, CAUSE, tmp_path / "break-1.py", "torch 2.13.0", float("inf"), means)
    assert found == ("not known whether it shows it alone: the run did not come to its end (out of time after 30 s)")


def test_a_fresh_process_that_did_not_end_has_shown_nothing(tmp_path: Path) -> None:
    found = made(tmp_path, lambda script: Outcome(Verdict.UNKNOWN, reason="out of time"))
    assert found == "not known whether it shows it alone: the run did not come to its end (out of time)"


def test_ctrl_c_is_not_called_anything_else(tmp_path: Path) -> None:
    judge: Any = ReadingJudge()
    asking = Asking(judge, tmp_path, Journal(), [])
    means = Means(asking, lambda script: Outcome(Verdict.PASSED), 30.0, 1, lambda: True, lambda _: None)
    found = example(PROGRAM, CAUSE, tmp_path / "break-1.py", "torch 2.13.0", float("inf"), means)
    assert found == "stopped by Ctrl-C"


@pytest.mark.slow
def test_a_recorder_writes_down_what_torch_tells(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n\n@torch.compile(backend='eager')\ndef f(x, s):\n    print('hi')\n    return x * s\n\n"
        "f(torch.ones(3), 0.5)\nf(torch.ones(3), 1.5)\n"
    )
    runner = tmp_path / "runner.py"
    runner.write_text(recorder(str(program), str(tmp_path / "record")))
    subprocess.run([sys.executable, str(runner)], check=True, capture_output=True)
    assert recorded(tmp_path / "record") == Observed(frozenset({"print()"}), frozenset({"s"}))


def breaks(script: Path) -> Outcome:
    failure = Failure(Kind.DYNAMO_ERROR, Phase.RUN_FORWARD, Fingerprint("Unsupported", "x"), text=ERROR)
    return Outcome(Verdict.FAILED, failure)


def test_killed_anywhere_it_judges_nothing_twice_and_ends_alike(tmp_path: Path) -> None:
    def place(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    judge = ReadingJudge()
    wanted = made(place("whole"), breaks, judge=judge)
    assert isinstance(wanted, Example)
    for judgements in range(1, len(judge.asked)):
        cut = place(f"cut-{judgements}")
        first, rest = ReadingJudge(judgements), ReadingJudge()
        with pytest.raises(Killed):
            made(cut, breaks, judge=first)
        ended = made(cut, breaks, judge=rest)
        assert isinstance(ended, Example)
        assert (ended.text, ended.judged) == (wanted.text, wanted.judged)
        assert first.asked + rest.asked == judge.asked


def test_one_answer_is_not_taken_for_that_about_another_cause(tmp_path: Path) -> None:
    judge: Any = ReadingJudge()
    asking = Asking(judge, tmp_path, Journal(), [])
    for cause in (CAUSE, Cause(False, "s", "s == 0.5", "program.py:7"), CAUSE):
        [outcome] = asking.ask([PROGRAM.replace('"', "'")], cause, 30.0)
        assert shows(outcome) is (cause is CAUSE)
    assert (len(judge.asked), asking.judged) == (2, 2)
