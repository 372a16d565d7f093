"""Judgements made again in fresh processes.  A toy `torch` keeps these fast."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, wrong_numbers
from torchsleuth.judge import remake as remaking
from torchsleuth.judge.judgement import Engine, Judgement
from torchsleuth.judge.match import Match, Target
from torchsleuth.judge.order import Cause, Ending
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.remake import Conditions, Remade, Request, remake
from torchsleuth.judge.rerun_command import read_ending
from torchsleuth.judge.verify import Setup

WANT = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError", "size N"))
TOY_TORCH = """
import os
DISABLED = os.environ.get("TORCH_COMPILE_DISABLE") == "1"
class compiler:
    @staticmethod
    def set_stance(stance): assert DISABLED and stance == "force_eager"
"""
FAILS = "import torch\nif not torch.DISABLED: raise ValueError('size 3')\n"


class Bench:
    """Judgements of scripts that import the toy."""

    def __init__(self, folder: Path) -> None:
        (folder / "toy").mkdir()
        (folder / "toy" / "torch.py").write_text(TOY_TORCH)
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "toy")}

    def __call__(
        self, source: str, match: Match, engine: Engine = Engine.WORKER, most_runs: int = 1, **facts: object
    ) -> Remade:
        script = self.folder / "candidate" / "repro.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text(textwrap.dedent(source))
        recorded = Judgement("j1", "candidate", match, engine, failed_runs=int(match is Match.SAME))
        recorded = replace(recorded, **facts)  # type: ignore[arg-type]
        request = Request(recorded, script, self.folder, Target(WANT), most_runs)
        return remake(request, Conditions(sys.executable, self.environment, 60.0))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_script_that_fresh_processes_judged_is_run_as_often_and_without_torchsleuth(bench: Bench) -> None:
    assert bench(FAILS, Match.SAME, Engine.FRESH, runs=2, failed_runs=2).matches == (Match.SAME, Match.SAME)
    hidden = """
        import torch
        try: import torchsleuth
        except ImportError: raise ValueError("size 3")
        """
    assert bench(hidden, Match.SAME, Engine.FRESH).matches == (Match.SAME,)


def test_a_script_that_a_worker_judged_can_import_torchsleuth(bench: Bench) -> None:
    assert bench("import torch, torchsleuth.errors\n", Match.PASSED).matches == (Match.PASSED,)
    assert bench("import torchsleuth.errors\n" + FAILS, Match.SAME).matches == (Match.SAME,)


def test_a_workers_script_has_to_pass_with_compilation_off(bench: Bench) -> None:
    found = bench("import torch\nraise ValueError('size 3')\n", Match.SAME)
    assert found.matches == (Match.INVALID,)
    assert found.reason == "with compilation off it fails: ValueError: size N"


def test_with_compilation_off_means_so(bench: Bench) -> None:
    assert bench(FAILS, Match.PASSED, Engine.FRESH, compiled=False).matches == (Match.PASSED,)


def test_of_processes_that_share_a_cache_the_second_counts(bench: Bench) -> None:
    source = """
        import os, torch
        place = os.environ["TORCHINDUCTOR_CACHE_DIR"] + ".filled"
        if not torch.DISABLED:
            if os.path.exists(place): raise ValueError("size 3")
            open(place, "w").close()
        """
    assert bench(source, Match.SAME, cache_runs=2).matches == (Match.SAME,)
    assert bench(source, Match.SAME).matches == (Match.PASSED,)


def test_a_failure_that_comes_and_goes_is_run_until_it_shows(bench: Bench, tmp_path: Path) -> None:
    source = f"""
        import os, torch
        if not torch.DISABLED:
            try: os.mkdir({str(tmp_path / "first")!r})
            except FileExistsError: raise ValueError("size 3")
        """
    assert bench(source, Match.SAME, most_runs=5).matches == (Match.PASSED, Match.SAME)


def test_what_is_not_here_is_no_lie(bench: Bench) -> None:
    assert "No module named 'mine'" in bench("import mine\n", Match.PASSED).obstacle
    assert "No module named 'mine'" in bench("import mine\n", Match.SAME, Engine.FRESH).obstacle
    assert bench("open('repro_data.pt')\n", Match.PASSED).obstacle == "its data (repro_data.pt) is not in the folder"
    cuda = "import torch\nraise RuntimeError('Found no NVIDIA driver on your system.')\n"
    assert bench(cuda, Match.PASSED).obstacle == "it needs a device that is not here (Found no NVIDIA driver)"


def test_a_script_that_is_gone(tmp_path: Path) -> None:
    recorded = Judgement("j1", "candidate", Match.PASSED, Engine.WORKER)
    request = Request(recorded, tmp_path / "repro.py", tmp_path, Target(WANT))
    assert remake(request, Conditions(sys.executable, {}, 60.0)).obstacle == "its script is not in the folder"


def test_nothing_is_run_after_the_end(tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text(FAILS)
    request = Request(
        Judgement("j1", "c", Match.SAME, Engine.FRESH, runs=3), tmp_path / "repro.py", tmp_path, Target(WANT)
    )
    found = remake(request, Conditions("no-such-python", {}, 60.0, lambda: True))
    assert found.matches == (Match.UNKNOWN,)


@pytest.mark.parametrize(
    ("match", "seconds", "deadline"),
    [(Match.SAME, 40.0, 140.0), (Match.SAME, 500.0, 300.0), (Match.PASSED, 40.0, 300.0)],
)
def test_a_hang_is_waited_for_twice_as_long_as_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: Match, seconds: float, deadline: float
) -> None:
    asked: list[Setup] = []

    def run(script: Path, phase: Phase, setup: Setup, *_: object) -> Outcome:
        asked.append(setup)
        return Outcome(Verdict.PASSED)

    monkeypatch.setattr(remaking, "run_set_up", run)
    (tmp_path / "repro.py").write_text("")
    recorded = Judgement("j1", "c", match, Engine.FRESH, seconds=seconds)
    target = Target(of_hang(Phase.RUN_FORWARD))
    remake(Request(recorded, tmp_path / "repro.py", tmp_path, target), Conditions("python", {}, 300.0))
    assert [setup.deadline for setup in asked] == [deadline]


# --- by a command -------------------------------------------------------------------------------------------------


def by_command(bench: Bench, command: str, match: Match, engine: Engine = Engine.COMMAND) -> Remade:
    return bench("", match, engine, command=command)


def test_a_check_is_judged_by_its_status(bench: Bench) -> None:
    assert by_command(bench, "test -d candidate", Match.PASSED).matches == (Match.PASSED,)  # in the output folder
    assert by_command(bench, "exit 3", Match.SAME).matches == (Match.SAME,)
    assert by_command(bench, "exit 125", Match.SAME).matches == (Match.INVALID,)
    assert by_command(bench, "exit 126", Match.SAME).matches == (Match.UNKNOWN,)


def test_a_program_is_judged_by_the_error_that_it_ends_with(bench: Bench) -> None:
    error = "echo 'Traceback'; echo 'ValueError: size 7'; exit 1"
    assert by_command(bench, error, Match.SAME, Engine.PROGRAM).matches == (Match.SAME,)
    assert by_command(bench, "true", Match.PASSED, Engine.PROGRAM).matches == (Match.PASSED,)
    busy = by_command(bench, "echo 'OSError: port in use'; exit 1", Match.SAME, Engine.PROGRAM)
    assert (busy.matches, busy.reason) == ((Match.OTHER,), "OSError: port in use")


def test_wrong_numbers_of_a_program_are_not_seen_from_outside() -> None:
    target = Target(wrong_numbers("values", Phase.RUN_FORWARD, "", ""))
    found = read_ending(Engine.PROGRAM, Ending(Cause.EXITED, 1), "AssertionError: loss went up\n", target)
    assert found.verdict is Verdict.UNKNOWN


def test_without_a_command_on_record_it_cannot_be_made(bench: Bench) -> None:
    found = by_command(bench, "", Match.PASSED, Engine.PROGRAM)
    assert found.obstacle == "it was judged by the program, and no command that makes it again is on record"


# --- with torch itself --------------------------------------------------------------------------------------------

REFEREED = """
import torch
from torchsleuth.referee.script import check

def backend(gm, inputs):
    return lambda *args: tuple(one * SCALE for one in gm(*args))

def f(x):
    return torch.sin(x)

def run(function):
    return function(torch.linspace(0, 1, 8))

check(run, lambda: f, lambda: torch.compile(f, backend=backend), ["out"])
"""


@pytest.mark.slow
def test_the_verdict_of_the_referee_is_read_as_the_worker_reads_it(tmp_path: Path) -> None:
    target = Target(wrong_numbers("values", Phase.RUN_FORWARD, "", ""))
    script = tmp_path / "repro.py"
    for scale, match in (("1.5", Match.SAME), ("1", Match.PASSED)):
        script.write_text(REFEREED.replace("SCALE", scale))
        recorded = Judgement("j1", "c", match, Engine.WORKER)
        found = remake(Request(recorded, script, tmp_path, target), Conditions(sys.executable, os.environ, 300.0))
        assert found.matches == (match,), found
