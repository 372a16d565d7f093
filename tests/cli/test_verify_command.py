"""torchsleuth verify: does a repro still fail, here and under other interpreters?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import Cli
from outputs import FAILING, FAILURE, MESSAGE, a_case, a_finding, a_result, an_output_folder, died

from torchsleuth.case.failure import Failure, Fingerprint
from torchsleuth.doctor import interpreter
from torchsleuth.doctor.interpreter import Interpreter
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.write import reverified, stored
from torchsleuth.write.reverified import Row

PASSED = Outcome(Verdict.PASSED)
OTHER = replace(FAILURE, fingerprint=Fingerprint("KeyError", "'x'"))


def failed(failure: Failure = FAILURE) -> Outcome:
    return Outcome(Verdict.FAILED, failure, failure.fingerprint.line)


class Stage:
    """Interpreters and outcomes that a test makes up; `compiled` holds for those not in `elsewhere`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled: Sequence[Outcome] = [failed()] * 9
        self.elsewhere: dict[str, Sequence[Outcome]] = {}
        self.eager = PASSED
        self.asked: list[tuple[str, bool]] = []
        self.known = {sys.executable: Interpreter(sys.executable, "3.11.7", "2.13.0+cpu")}
        monkeypatch.setattr(interpreter, "find", lambda word, environment: Interpreter(word))
        monkeypatch.setattr(interpreter, "with_torch", self._with_torch)
        monkeypatch.setattr(reverified, "run_fresh", self._run)

    def _with_torch(self, found: Interpreter, environment: object) -> Interpreter:
        return self.known.get(found.path) or Interpreter(found.path, "3.12.1", error="torch is not installed")

    def _run(self, script: Path, phase: object, *, python: str, eager: bool, **_: object) -> Outcome:
        self.asked.append((python, eager))
        number = sum(not e for p, e in self.asked if p == python) - 1
        return self.eager if eager else self.elsewhere.get(python, self.compiled)[number]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_repro_that_fails_as_recorded_is_verified(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    an_output_folder(tmp_path / "out")
    said = cli("verify", "out/repro.py")
    assert said.status == 0
    assert said.out.splitlines() == [
        f"recorded: {FAILURE.fingerprint.line}",
        f"python  torch       compiled                    eager   {'interpreter'}",
        f"3.11.7  2.13.0+cpu  3 of 3 failed the same way  passes  {sys.executable}",
        "out/repro.py: verified: it fails the same way in every run",
    ]
    assert [eager for _, eager in stage.asked] == [False, False, False, True]


@pytest.mark.parametrize(
    ("compiled", "eager", "row", "end"),
    [
        ([PASSED, PASSED], PASSED, "passes, 2 of 2", "it does not fail any more"),
        (
            [failed(), PASSED],
            PASSED,
            "1 of 2 failed the same way, 1 of 2 passed",
            "it does not fail the same way in every run",
        ),
        ([failed(OTHER)] * 2, PASSED, "2 of 2 failed in another way", "it fails in another way than recorded"),
        ([failed()] * 2, failed(OTHER), "2 of 2 failed the same way", "it also fails with compilation off"),
    ],
)
def test_a_repro_that_does_not_fail_alike(
    tmp_path: Path, cli: Cli, stage: Stage, compiled: Sequence[Outcome], eager: Outcome, row: str, end: str
) -> None:
    an_output_folder(tmp_path / "out")
    stage.compiled, stage.eager = compiled, eager
    said = cli("verify", "--runs", "2", "out/repro.py")
    assert said.status == 1
    assert f"  {row}  " in said.out
    assert end in said.last_line
    assert ("KeyError: 'x'" in said.out) == (OTHER in {o.failure for o in (*compiled, eager)})


def test_nothing_recorded_means_like_the_first_failure(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    (tmp_path / "mine.py").write_text(FAILING)
    said = cli("verify", "mine.py")
    assert said.status == 0
    assert said.out.startswith(f"first seen: RuntimeError: {MESSAGE}")
    stage.compiled = [failed(), failed(OTHER), failed()]
    stage.asked.clear()
    assert cli("verify", "mine.py").status == 1
    stage.compiled = [PASSED] * 3
    stage.asked.clear()
    said = cli("verify", "mine.py")
    assert (said.status, said.last_line) == (1, "mine.py: it does not fail")


def test_the_first_failure_is_the_measure_for_every_interpreter(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    (tmp_path / "mine.py").write_text(FAILING)
    stage.known["other"] = Interpreter("other", "3.12.1", "2.14.0")
    stage.compiled = [failed()]
    stage.elsewhere["other"] = [failed(OTHER)]
    said = cli("verify", "--runs", "1", "--python", sys.executable, "--python", "other", "mine.py")
    assert said.status == 1
    assert "1 of 1 failed the same way" in said.out
    assert "1 of 1 failed in another way" in said.out


def test_an_interpreter_without_torch_is_a_row_and_status_2(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    an_output_folder(tmp_path / "out")
    said = cli("verify", "--python", "bare", "--python", sys.executable, "out/repro.py")
    assert said.status == 2
    assert "3.12.1  -           not run                     -       bare\n    torch is not installed\n" in said.out
    assert said.last_line.endswith("it fails the same way in every run where it could be run")
    assert said.err.splitlines()[-1] == (
        "torchsleuth: bare: torch is not installed. Name a Python that has torch with --python."
    )


def test_json(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    an_output_folder(tmp_path / "out")
    stage.compiled = [failed(), failed(OTHER), PASSED]
    said = json.loads(cli("verify", "--json", "--python", sys.executable, "--python", "bare", "out/repro.py").out)
    here, bare = said.pop("interpreters")
    assert said == {
        "schema": 1,
        "script": "out/repro.py",
        "recorded": FAILURE.fingerprint.line,
        "verified": False,
    }
    assert here == {
        "python": sys.executable, "version": "3.11.7", "torch": "2.13.0+cpu", "runs": 3, "failed_alike": 1,
        "failed_otherwise": 1, "passed": 1, "eager_passes": True, "said": "KeyError: 'x'", "error": None,
    }  # fmt: skip
    assert (bare["runs"], bare["eager_passes"], bare["error"]) == (0, None, "torch is not installed")


def test_bad_usage(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    assert cli("verify").status == 2
    assert cli("verify", "nowhere.py").status == 2
    (tmp_path / "mine.py").write_text("")
    assert cli("verify", "--runs", "0", "mine.py").status == 2
    assert stage.asked == []


# --- which failure is recorded ------------------------------------------------------------------------------------


def test_the_failure_of_a_repro_is_found_in_its_output_folder_and_its_case(tmp_path: Path) -> None:
    out = an_output_folder(tmp_path / "out")
    assert stored.recorded_failure(out / "repro.py") == FAILURE
    shutil.copy(out / "repro.py", out / "cases" / "f1")
    assert stored.recorded_failure(out / "cases" / "f1" / "repro.py") == FAILURE
    (out / "result.json").unlink()
    assert stored.recorded_failure(out / "cases" / "f1" / "repro.py") == FAILURE
    assert stored.recorded_failure(out / "repro.py") is None


def test_a_case_without_tensors_still_tells_its_failure(tmp_path: Path) -> None:
    out = an_output_folder(tmp_path / "out")
    (out / "cases" / "f1" / "tensors.safetensors").unlink()
    assert stored.recorded_failure(out / "repro.py") == FAILURE
    shutil.rmtree(out / "cases")
    found = stored.recorded_failure(out / "repro.py")
    assert found is not None
    assert found.fingerprint == FAILURE.fingerprint
    assert stored.recorded_failure(out / "another.py") is None


def test_how_a_process_died_alone_is_taken_from_the_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen_by_judge = a_result(a_finding(out, failure=died("SIGABRT")))
    an_output_folder(out, result=seen_by_judge, case=replace(a_case(), failure=died("crash")))
    found = stored.recorded_failure(out / "repro.py")
    assert found is not None
    assert found.fingerprint == Fingerprint("SIGABRT")


def test_a_result_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    out, other = an_output_folder(tmp_path / "out"), an_output_folder(tmp_path / "other")
    (other / "cases" / "f1" / "case.json").write_text("damaged")
    data = json.loads((out / "result.json").read_text())
    data["failures"][0]["case"] = "../other/cases/f1"
    (out / "result.json").write_text(json.dumps(data))
    found = stored.recorded_failure(out / "repro.py")
    assert found is not None
    assert found.text == ""


def test_a_damaged_case_says_how_to_go_on(tmp_path: Path, cli: Cli, stage: Stage) -> None:
    out = an_output_folder(tmp_path / "out")
    (out / "cases" / "f1" / "case.json").write_text('{"failure": {}}')
    said = cli("verify", out / "repro.py")
    assert said.status == 2
    assert "case.json is damaged (KeyError: 'fingerprint'). To try the script all the same, copy it" in said.err


# --- real interpreters --------------------------------------------------------------------------------------------


def test_programs_that_are_no_python(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin"}
    for word, error in {
        "no-such-python": "cannot be started: there is no such program",
        str(tmp_path / "text"): "cannot be started: it cannot be executed",
        str(script): "cannot be started: it ended with status 3",
        "/bin/echo": "cannot be started: it is not a Python",
    }.items():
        assert interpreter.find(word, environment).error == error


def test_a_python_is_told_by_its_path_even_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    found = interpreter.find("./python", {})
    assert (found.path, found.error) == (str(tmp_path / "python"), "")
    assert found.numbers == sys.version_info[:3]


def test_a_python_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    found = interpreter.with_torch(interpreter.find(str(tmp_path / "bare/bin/python"), {}), {})
    assert (found.torch, found.error) == ("", "torch is not installed")


def test_a_row_is_verified_only_when_eager_passed() -> None:
    row = Row("python", runs=2, alike=2, eager=Match.PASSED)
    assert row.verified
    assert not replace(row, eager=Match.SAME).verified
    assert not replace(row, alike=1).verified
    assert not Row("python").verified


@pytest.mark.slow
def test_a_real_repro_is_verified_and_a_mended_one_is_not(tmp_path: Path, run_cli) -> None:
    out = an_output_folder(tmp_path / "out")
    done = run_cli("verify", "--runs", "2", "out/repro.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 failed the same way" in done.stdout
    (out / "repro.py").write_text(FAILING.replace("raise RuntimeError", "return gm.forward #"))
    done = run_cli("verify", "--runs", "1", "--json", "out/repro.py")
    assert done.returncode == 1
    [row] = json.loads(done.stdout)["interpreters"]
    assert (row["passed"], row["eager_passes"]) == (1, True)
