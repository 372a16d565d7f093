"""torchsleuth audit: every claim of a run is checked, and every planted lie is found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited import CLAIMS, PASSES, ToyRunner, an_audited_folder, edit_judgement, edit_result
from cli_helpers import Cli, Said
from outputs import an_output_folder

from torchsleuth.commands import auditing
from torchsleuth.doctor import interpreter
from torchsleuth.doctor.interpreter import Interpreter
from torchsleuth.judge.match import Match
from torchsleuth.judge.remake import Conditions, Remade, Request

Failure = dict[str, Any]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ToyRunner:
    found = ToyRunner()
    monkeypatch.setattr(auditing, "remake", found)
    monkeypatch.setattr(interpreter, "find", lambda word, environment: Interpreter(word, "3.11.7"))
    monkeypatch.setattr(interpreter, "with_torch", lambda found, environment: Interpreter(found.path, "3", "2.13.0"))
    return found


def verdicts(said: Said) -> dict[str, tuple[str, str]]:
    """The verdict of each row by its sentence, or by the key of result.json."""
    rows = json.loads(said.out)["claims"]
    assert all((row["why"] is None) == (row["verdict"] == "holds") for row in rows)
    return {row["text"] if row["id"][1:].isdigit() else row["id"]: (row["verdict"], row["why"]) for row in rows}


def false_rows(cli: Cli) -> dict[str, str]:
    said = cli("audit", "--format", "json", "out")
    assert said.status == 1
    return {name: f"{verdict}: {why}" for name, (verdict, why) in verdicts(said).items() if verdict != "holds"}


def test_every_claim_holds(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    said = cli("audit", "out")
    assert said.status == 0
    rows = said.out.splitlines()
    assert rows[:2] == [f"f1 c1  {CLAIMS['fails']}", "         holds"]
    assert [row.strip() for row in rows[1::2]] == ["holds"] * 8
    assert rows[-1] == "out: all 8 claims hold"


def test_a_judgement_that_several_claims_rest_on_is_made_once(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    cli("audit", "--jobs", "1", "out")
    assert runner.made == [
        ("j1", "repro.py"),  # the user's file, in the place of the candidate that it is
        ("j2", "repro.py"),
        ("j3", "candidates/eager/repro.py"),
        ("j4", "candidates/needed/repro.py"),
        ("j5", "candidates/size/repro.py"),
        ("j6", "candidates/helps/repro.py"),
    ]


def test_what_a_claim_gave_is_said(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    runner.matches["j3"] = Remade((Match.OTHER,), "KeyError: 'x'")
    said = cli("audit", "out")
    assert said.status == 1
    assert f"f1 c3  {CLAIMS['eager']}\n         does not hold: it failed in another way (KeyError: 'x')\n" in said.out
    assert said.last_line == "out: 7 of 8 claims hold, 1 does not hold"


def test_a_repro_that_no_longer_fails_is_found(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    (out / "repro.py").write_text(f'"""What fails."""\n{PASSES}')
    gave = "does-not-hold: repro.py: 3 of 3 runs passed (it says passed)"
    assert false_rows(cli) == {CLAIMS["fails"]: gave}
    assert ("j1", f"candidates/{'a' * 32}/repro.py") in runner.made  # what the other claims rest on
    assert ("j1", "repro.py") in runner.made


def test_other_data_beside_the_repro_makes_it_another_script(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    (out / "repro_data.pt").write_bytes(b"other")
    assert cli("audit", "out").status == 0
    assert {script for name, script in runner.made if name == "j1"} == {"repro.py", f"candidates/{'a' * 32}/repro.py"}


def test_a_workaround_that_does_not_help_is_found(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    (out / "candidates" / "helps" / "repro.py").write_text("# same\n")
    gave = "does-not-hold: it failed in the same way (it says same)"
    assert false_rows(cli) == {CLAIMS["helps"]: gave}


def claim_of(failure: Failure, name: str) -> dict[str, Any]:
    return next(one for one in failure["claims"] if one["text"] == CLAIMS[name])


def lie(change: Callable[[Failure], object]) -> Callable[[Path], None]:
    return lambda out: edit_result(out, lambda failure: change(failure) and None)


def repeat_line(out: Path, number: int) -> None:
    path = out / "judgements.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in (*lines, lines[number])))


LIES = {
    "a judgement that does not exist": (
        lie(lambda f: claim_of(f, "eager").update(judgements=["j99"])),
        {CLAIMS["eager"]: "not-backed: judgements.jsonl holds no j99"},
    ),
    "no judgement at all": (
        lie(lambda f: claim_of(f, "eager").update(judgements=[])),
        {CLAIMS["eager"]: "not-backed: it names no judgement"},
    ),
    "a judgement of another end": (
        lie(lambda f: claim_of(f, "needed").update(judgements=["j5"])),
        {CLAIMS["needed"]: "not-backed: j5 is on record as 'same', which does not back it"},
    ),
    "a judgement on another backend": (
        lie(lambda f: claim_of(f, "eager").update(judgements=["j4"])),
        {CLAIMS["eager"]: "not-backed: the script of j4 does not use this backend"},
    ),
    "another sentence": (
        lie(lambda f: claim_of(f, "eager").update(text='Fails with backend="eager".')),
        {'Fails with backend="eager".': "not-backed: the sentence does not say what a claim of kind 'passes' says"},
    ),
    "a sentence about something else": (
        lie(lambda f: claim_of(f, "needed").update(text="Passes without x.")),
        {"Passes without x.": "not-backed: the sentence is not about y"},
    ),
    "more runs in the sentence": (
        lie(lambda f: claim_of(f, "fails").update(text="Failed in the same way in 9 of 9 fresh processes.")),
        {"Failed in the same way in 9 of 9 fresh processes.": ("not-backed: j1 is on record with 3 of 3 runs failed")},
    ),
    "another match on record": (
        lambda out: edit_judgement(out, "j3", match="same", failed_runs=1),
        {CLAIMS["eager"]: "not-backed: j3 is on record as 'same', which does not back it"},
    ),
    "another count on record": (
        lambda out: edit_judgement(out, "j5", failed_runs=2),
        {CLAIMS["size"]: "not-backed: j5 contradicts itself: 'same' with 2 of 1 runs failed"},
    ),
    "another candidate on record": (
        lambda out: edit_judgement(out, "j6", candidate="size"),
        {CLAIMS["helps"]: "does-not-hold: it failed in the same way (it says same)"},
    ),
    "a second line of one number": (
        lambda out: repeat_line(out, 2),
        {CLAIMS["eager"]: "not-backed: judgements.jsonl holds j3 more than once"},
    ),
    "a damaged line": (
        lambda out: edit_judgement(out, "j3", match="fine"),
        {CLAIMS["eager"]: "not-backed: judgements.jsonl holds no j3"},
    ),
    "a workaround": (
        lie(lambda f: f.update(workaround="use_eager = True")),
        {"workaround": "not-backed: no claim says that it helps"},
    ),
    "the workaround of a sentence": (
        lie(lambda f: claim_of(f, "helps").update(text="Passes with the workaround: use_eager = True")),
        {
            "Passes with the workaround: use_eager = True": "",
            "workaround": "not-backed: the sentence names another workaround than its claim",
        },
    ),
    "something needed": (
        lie(lambda f: f["needed"].append("z")),
        {"needed": "not-backed: no claim says that it is needed"},
    ),
    "a variation": (
        lie(lambda f: f["varies"].append("Passes with float16.")),
        {"varies": "not-backed: no claim says so"},
    ),
    "a rung": (
        lie(lambda f: f["ladder"].append({"backend": "aot_eager", "fails": False})),
        {"ladder": "not-backed: no claim says so"},
    ),
    "a rung that fails": (
        lie(lambda f: f["ladder"][0].update(fails=True)),
        {"ladder": "not-backed: no claim says so"},
    ),
    "a setting": (
        lie(lambda f: f["ablation"].append({"without": "autocast", "passes": True})),
        {"ablation": "not-backed: no claim says so"},
    ),
    "a step inside the compiler": (
        lie(lambda f: f.update(inside={"name": "fusion", "passes_without_it": True, "said": []})),
        {"inside": "not-backed: no claim says so"},
    ),
    "a nearest script that passes": (
        lie(lambda f: f.update(nearest_passing="- y\n+ x")),
        {"nearest_passing": "not-backed: no claim says that one passes"},
    ),
    "an operator": (
        lie(lambda f: f["culprit"].update(op="torch.add")),
        {"culprit": "not-backed: no claim says that it is to blame"},
    ),
    "more failed runs": (
        lie(lambda f: f["repro"].update(failed_runs=9, runs=9)),
        {"repro": "not-backed: its claim rests on 3 of 3"},
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_planted_lies_are_found(tmp_path: Path, cli: Cli, runner: ToyRunner, name: str) -> None:
    plant, expected = LIES[name]
    plant(an_audited_folder(tmp_path / "out"))
    assert false_rows(cli) == {row: why for row, why in expected.items() if why}


def test_a_verified_repro_without_a_claim_is_found(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    edit_result(out, lambda f: f["claims"].remove(claim_of(f, "fails")))
    assert false_rows(cli) == {"repro": "not-backed: no claim says that it fails"}


# --- what cannot be made here -------------------------------------------------------------------------------------


def test_what_cannot_be_made_here_is_counted_and_is_no_lie(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    runner.matches["j6"] = Remade(obstacle="its script is not in the folder")
    said = cli("audit", "out")
    assert said.status == 0
    assert "         cannot be made here: its script is not in the folder\n" in said.out
    assert said.last_line == "out: 7 of 8 claims hold, 1 could not be made here"


def test_a_budget_ends_it(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    said = cli("audit", "--budget", "0", "out")
    assert (said.status, runner.made) == (0, [])
    assert "cannot be made here: the budget was spent" in said.out
    assert said.last_line == "out: 0 of 8 claims hold, 8 could not be made here"


def test_ctrl_c_ends_it_and_says_how_far_it_came(
    tmp_path: Path, cli: Cli, runner: ToyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_audited_folder(tmp_path / "out")

    def interrupted(request: Request, conditions: Conditions) -> Remade:
        if request.judgement.id != "j3":
            return runner(request, conditions)
        os.kill(os.getpid(), signal.SIGINT)
        until = time.monotonic() + 10
        while not conditions.stopped() and time.monotonic() < until:
            time.sleep(0.01)
        return Remade((Match.UNKNOWN,), "the run was cut short")

    monkeypatch.setattr(auditing, "remake", interrupted)
    began = time.monotonic()
    said = cli("audit", "--jobs", "1", "out")
    assert time.monotonic() - began < 5
    assert said.status == 130
    assert [name for name, _ in runner.made] == ["j1", "j2"]
    assert f"f1 c3  {CLAIMS['eager']}\n         not made: it was interrupted\n" in said.out
    assert said.last_line == "out: interrupted: 4 of 8 claims hold, 4 could not be made here"


# --- folders that are refused, and where they come from -----------------------------------------------------------


def test_a_result_of_an_older_torchsleuth_holds_no_claims(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    edit_result(an_audited_folder(tmp_path / "out"), lambda failure: failure.pop("claims"))
    said = cli("audit", "out")
    assert (said.status, said.out) == (2, "")
    assert "was written by an older torchsleuth: it holds no claims" in said.err


def test_a_run_without_failures_claims_nothing(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    data = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps({**data, "failures": []}))
    said = cli("audit", "out")
    assert (said.status, said.last_line) == (0, "out: no claims to audit")


@pytest.mark.parametrize(
    "leave",
    [
        lambda out: edit_judgement(out, "j3", candidate="../../elsewhere"),
        lie(lambda f: f["repro"].update(path="../elsewhere/repro.py")),
        lambda out: ((out / "repro.py").unlink(), (out / "repro.py").symlink_to(out.parent / "elsewhere/repro.py")),
        lambda out: (out / "repro_data.pt").symlink_to(out.parent / "elsewhere/repro.py"),
    ],
)
def test_a_path_that_leaves_the_folder_is_refused_before_anything_is_run(
    tmp_path: Path, cli: Cli, runner: ToyRunner, leave: Callable[[Path], object]
) -> None:
    out = an_audited_folder(tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "repro.py").write_text(PASSES)
    leave(out)
    said = cli("audit", "out")
    assert (said.status, runner.made) == (2, [])
    assert "names a file outside of itself" in said.err


def test_bad_usage(tmp_path: Path, cli: Cli, runner: ToyRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("audit").status == 2
    assert cli("audit", "nowhere").status == 2
    an_audited_folder(tmp_path / "out")
    monkeypatch.setattr(interpreter, "with_torch", lambda found, _: Interpreter("bare", error="torch is not installed"))
    said = cli("audit", "--python", "bare", "out")
    assert said.status == 2
    assert "bare: torch is not installed. Name a Python that has torch with --python." in said.err


def test_json_is_one_document_and_nothing_else(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    an_audited_folder(tmp_path / "out")
    said = cli("audit", "--format", "json", "--python", "other", "out")
    found = json.loads(said.out)
    assert (found["python"], found["torch"], found["holds"], found["interrupted"]) == ("other", "2.13.0", True, False)
    assert found["counts"] == {"holds": 8, "not-made": 0, "does-not-hold": 0, "not-backed": 0}
    assert found["claims"][0]["judgements"] == [
        {
            "id": "j1",
            "script": "repro.py",
            "recorded": "same",
            "recorded_runs": 3,
            "recorded_failed_runs": 3,
            "matches": ["same"] * 3,
            "runs": 3,
            "failed_runs": 3,
            "seconds": 0.0,
            "verdict": "holds",
            "command": f"python candidates/{'a' * 32}/repro.py",
        }
    ]


def test_a_folder_that_was_packed_and_moved_can_be_audited(tmp_path: Path, cli: Cli, runner: ToyRunner) -> None:
    out = an_audited_folder(tmp_path / "out")
    (out / "candidates" / "helps" / "repro_data.pt").write_bytes(b"data")
    (out / "candidates" / "helps" / "repro.py").write_text(f'{PASSES}"repro_data.pt"')
    assert cli("pack", "out").status == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "elsewhere")
    assert "candidates/helps/repro_data.pt" in names
    assert not any("d" * 32 in name for name in names)  # no claim rests on it
    shutil.rmtree(out)
    said = cli("audit", "elsewhere")
    assert said.status == 0, said.out
    assert said.last_line == "elsewhere: all 8 claims hold"


# --- for real -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_claims_about_a_backend_of_the_users_hold_and_an_edited_repro_does_not(tmp_path: Path, run_cli) -> None:
    """Two real runs of a script that compiles nothing: the processes are those of a real audit."""
    out = an_output_folder(tmp_path / "out")
    source = (out / "repro.py").read_text()
    candidate = out / "candidates" / "a"
    candidate.mkdir(parents=True)
    (candidate / "repro.py").write_text(source)
    row = {"id": "j1", "candidate": "a", "match": "same", "engine": "fresh", "changes": [], "runs": 3, "failed_runs": 3}
    (out / "judgements.jsonl").write_text(json.dumps({**row, "seconds": 1.0, "phase": "compile-forward"}) + "\n")

    def claims(failure: Failure) -> None:
        failure["claims"] = [
            {"id": "c1", "kind": "fails", "topic": "repro", "about": "repro.py", "text": CLAIMS["fails"],
             "judgements": ["j1"]},
        ]  # fmt: skip
        failure["culprit"]["op"], failure["ladder"] = None, []

    edit_result(out, claims)
    assert run_cli("audit", "out").stdout.splitlines()[-1] == "out: the claim holds"
    (out / "repro.py").write_text(source.replace("raise RuntimeError", "RuntimeError"))
    done = run_cli("audit", "--python", sys.executable, "out")
    assert done.returncode == 1, done.stdout
    assert "does not hold: repro.py: 3 of 3 runs " in done.stdout
