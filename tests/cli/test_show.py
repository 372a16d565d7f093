"""torchsleuth show: the summary of a run, again, from result.json."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import Cli
from outputs import FAILING, FAILURE, a_case, a_finding, a_result, an_output_folder, died

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.write import account, terminal
from torchsleuth.write.account import read_fingerprint
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import RunVerdict, to_json


def test_the_summary_is_told_again(tmp_path: Path, cli: Cli) -> None:
    said = cli("show", an_output_folder(tmp_path / "out"))
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines() == [
        f"{tmp_path}/out: python train.py --epochs 1",
        "",
        "torchsleuth: 1 failure (12 graphs compiled in 1 process)",
        "",
        "  compile-error in backend, compiling the forward graph",
        "  RuntimeError: no such kernel",
        "",
        "  operator    aten.relu.default",
        "  line        model.py:31: return torch.relu(x)",
        "  backends    eager passes, mine fails",
        "  repro       1 operator, 8 lines; failed the same way in 3 of 3 fresh processes",
        "out/repro.py",
    ]


def test_run_and_show_tell_the_same_less_what_the_result_does_not_hold(tmp_path: Path) -> None:
    out = an_output_folder(tmp_path / "out")
    result = a_result(a_finding(out), notes=("the program was interrupted (Ctrl-C)",))
    now = list(terminal.lines(account.of_result(result, out), out))
    again = list(terminal.lines(account.of_json(to_json(result, out)), out))
    only_now = ["  line        model.py:31: return torch.relu(x)"]
    assert [line for line in now if line not in again] == only_now
    assert [line for line in again if line not in now] == ["  line        model.py:31"]


def test_the_words_of_the_error_are_those_of_the_case(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    an_output_folder(out, case=replace(a_case(), failure=replace(FAILURE, summary="RuntimeError: no such kernel, 7")))
    assert "  RuntimeError: no such kernel, 7" in cli("show", out).out.splitlines()


@pytest.mark.parametrize("damage", ["", "[]", '{"failure": 3}', '{"failure": null, "graph": 5}'])
def test_a_damaged_case_does_not_stand_in_the_way(tmp_path: Path, cli: Cli, damage: str) -> None:
    out = an_output_folder(tmp_path / "out")
    (out / "cases" / "f1" / "case.json").write_text(damage)
    said = cli("show", out)
    assert said.status == 0
    assert "  RuntimeError: no such kernel\n\n  operator    aten.relu.default\n  line        model.py:31\n" in said.out


def test_a_result_that_holds_the_ladder_is_told_with_it(tmp_path: Path) -> None:
    out = an_output_folder(tmp_path / "out")
    result = a_result(a_finding(out))
    data = to_json(result, out)
    data["failures"][0]["ladder"] = [{"backend": "eager", "fails": False}, {"backend": "mine", "fails": True}]
    data["failures"][0]["culprit"]["code"] = "return torch.relu(x)"
    assert list(terminal.lines(account.of_json(data), out)) == list(terminal.lines(account.of_result(result, out), out))


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (died("SIGSEGV"), "  The process dies with SIGSEGV."),
        (Failure(Kind.HANG, Phase.RUN_FORWARD, Fingerprint("hang")), "  It does not end."),
        (Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("KeyError", "a @ b: c")), "  KeyError: a @ b: c"),
    ],
)
def test_every_kind_has_its_headline(tmp_path: Path, cli: Cli, failure: Failure, line: str) -> None:
    out = tmp_path / "out"
    an_output_folder(out, result=a_result(a_finding(out, failure=failure)))
    assert line in cli("show", out).out.splitlines()


@pytest.mark.parametrize(
    "mark",
    [
        FAILURE.fingerprint,
        Fingerprint("SIGSEGV"),
        Fingerprint("torch.X", "a: b @ c", ("_inductor/ir.py:<lambda>",)),
        Fingerprint("exit 3", "", ("a.py:f",)),
    ],
)
def test_a_fingerprint_is_read_back_from_its_line(mark: Fingerprint) -> None:
    assert read_fingerprint(mark.line) == replace(mark, frames=mark.frames[-1:])


def test_why_there_is_no_repro_is_said_once(tmp_path: Path, cli: Cli) -> None:
    why = "Dynamo failed before it had a graph, so there is no graph to run alone."
    result = a_result(Finding("f1", FAILURE, why_not=why), verdict=RunVerdict.NOT_REPRODUCED, notes=(f"f1: {why}",))
    said = cli("show", an_output_folder(tmp_path / "out", result=result))
    assert said.out.count(why) == 1
    assert f"  no repro    {why}" in said.out
    assert said.last_line == "out/issue.md"


@pytest.mark.parametrize("verdict", list(RunVerdict))
def test_every_verdict_can_be_shown(tmp_path: Path, cli: Cli, verdict: RunVerdict) -> None:
    said = cli("show", an_output_folder(tmp_path / "out", result=a_result(verdict=verdict, notes=("as noted",))))
    assert said.status == 0
    assert "  note: as noted" in said.out
    assert said.last_line == "out/result.json"


def test_without_a_folder_the_newest_run_here_is_shown(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "torchsleuth-out" / "9-named-later", age=100)
    an_output_folder(tmp_path / "torchsleuth-out" / "1-newest")
    assert cli("show").last_line == "torchsleuth-out/1-newest/repro.py"
    assert cli("show", "torchsleuth-out/9-named-later").last_line == "torchsleuth-out/9-named-later/repro.py"
    assert cli("show", "torchsleuth-out/9-named-later/result.json").status == 0


def test_a_newer_run_without_a_result_is_mentioned(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "torchsleuth-out" / "old", age=100)
    assert cli("show").err == ""
    (tmp_path / "torchsleuth-out" / "killed" / "logs").mkdir(parents=True)
    assert "killed began later and has no result" in cli("show").err


def test_a_repro_that_was_moved_away_is_not_pointed_to(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "out")
    (out / "repro.py").unlink()
    assert cli("show", out).last_line == "out/result.json"


def test_json_is_the_file_itself(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "out")
    assert cli("show", "--json", out).out == (out / "result.json").read_text()


def test_no_control_sequence_of_a_strange_result_reaches_the_terminal(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "out")
    data = json.loads((out / "result.json").read_text())
    data["command"] = ["python", "\x1b]0;gotcha\x07"]
    data["failures"][0]["culprit"]["op"] = "\x1b[2J"
    (out / "result.json").write_text(json.dumps(data))
    assert "\x1b" not in cli("show", out).out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ('{"schema": 1, "verd', "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("[]", "was not written by torchsleuth"),
        ('{"schema": "1"}', "was not written by torchsleuth"),
        ('{"schema": 1}', "is incomplete ('notes' is missing)"),
        ('{"schema": 2}', "written by a newer torchsleuth: schema 2, and this one reads 1. Upgrade torchsleuth."),
    ],
)
def test_a_result_that_cannot_be_read(tmp_path: Path, cli: Cli, text: str, message: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text(text)
    said = cli("show", "out")
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert said.err.startswith("torchsleuth: ")


@pytest.mark.parametrize("change", [{"verdict": "splendid"}, {"failures": 3}, {"failures": [{}]}, {"watched": None}])
def test_a_result_with_a_wrong_part(tmp_path: Path, cli: Cli, change: dict[str, object]) -> None:
    out = an_output_folder(tmp_path / "out")
    data = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps({**data, **change}))
    said = cli("show", out)
    assert said.status == 2
    assert "result.json is incomplete" in said.err


def test_folders_that_are_no_runs(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "out")
    (tmp_path / "empty").mkdir()
    (tmp_path / "going" / "logs").mkdir(parents=True)
    for words, message in {
        (): "There is no output folder here.",
        ("nowhere",): "There is no output folder at nowhere.",
        ("empty",): "empty holds no result.json",
        ("going",): "has not ended yet, or was killed",
        ("out/repro.py",): "out/repro.py is a file.",
        ("out/cases/f1",): f"Name the whole: {out}",
    }.items():
        said = cli("show", *words)
        assert (said.status, said.out) == (2, "")
        assert message in said.err


@pytest.mark.slow
def test_what_a_real_run_printed_is_shown_again(tmp_path: Path, run_cli) -> None:
    (tmp_path / "program.py").write_text(FAILING)
    ran = run_cli("run", "program.py")
    assert ran.returncode == 1, ran.stderr
    shown = run_cli("show")
    assert shown.returncode == 0, shown.stderr
    told = shown.stdout.splitlines()[1:]
    assert told[1] == "torchsleuth: 1 failure (1 graph compiled in 1 process)"
    assert set(told) <= set(ran.stdout.splitlines())
    assert shown.stdout.splitlines()[-1] == ran.stdout.splitlines()[-1]


def test_what_explain_said_is_shown_again(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "torchsleuth-out" / "20260101-000000-train"
    (folder / "logs").mkdir(parents=True)
    (folder / "explain.json").write_text('{"schema": 1}\n')
    (folder / "explain.txt").write_text("torchsleuth: 1 graph\x1b[31m\n")
    for said in (cli("show"), cli("show", folder)):
        assert said.status == 0
        assert said.out.splitlines()[0] == "torchsleuth: 1 graph?[31m"
        assert said.last_line.endswith("20260101-000000-train/report.html")
    assert cli("show", folder, "--json").out == '{"schema": 1}\n'


def test_an_explanation_beside_a_run_is_no_unfinished_run(cli: Cli, tmp_path: Path) -> None:
    run = an_output_folder(tmp_path / "torchsleuth-out" / "a", age=60)
    folder = tmp_path / "torchsleuth-out" / "b"
    (folder / "logs").mkdir(parents=True)
    (folder / "explain.json").write_text("{}")
    assert cli("show", run).err == ""
