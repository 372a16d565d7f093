"""The terminal: the summary of every verdict, and a last line to act on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from findings_by_hand import FAILURE, a_finding, a_repro, a_result

from torchsleuth.case.ir import Source
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.write import account, terminal
from torchsleuth.write.findings import Culprit
from torchsleuth.write.result import Result, RunVerdict


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def summary(result: Result, out: Path) -> list[str]:
    return list(terminal.lines(account.of_result(result, out), out))


def test_a_verified_failure(out: Path) -> None:
    (out / "repro.py").touch()
    assert summary(a_result(a_finding(out, repro=a_repro(out))), out) == [
        "torchsleuth: 1 failure (12 graphs compiled in 1 process)",
        "",
        "  compile-error in inductor, compiling the forward graph",
        "  RuntimeError: no kernel for 3",
        "",
        "  operator    aten.relu.default",
        "  line        model.py:31: return torch.relu(x)",
        "  backends    eager passes, inductor fails",
        "  repro       1 operator, 3 lines; failed the same way in 3 of 3 fresh processes",
        '  not known   whether it passes with backend="aot_eager": it did not come to an end that says something',
        "out/repro.py",
    ]


def test_the_workaround_is_said_before_the_repro(out: Path) -> None:
    (out / "repro.py").touch()
    parts = [Claim(ClaimKind.NEEDED, Topic.PART, name, f"Passes without {name}.", ("j4",)) for name in ("relu", "tanh")]
    one = a_finding(out, repro=a_repro(out))
    one = replace(one, workaround="torch.x = 1", claims=(*one.claims, *parts), not_known=())
    lines = summary(a_result(one), out)
    assert lines[-4:-2] == ["  workaround  torch.x = 1", "  needed      relu; tanh"]
    two = replace(one, workaround="import torch\nf(torch)", claims=())
    assert summary(a_result(two), out)[-4:-2] == ["  workaround  import torch", "              f(torch)"]


def test_what_is_not_known_is_said_and_a_long_list_is_cut(out: Path) -> None:
    one = replace(a_finding(out, repro=a_repro(out)), not_known=tuple(f"thing {n}" for n in range(9)))
    lines = summary(a_result(one), out)
    assert [line for line in lines if "not known" in line] == [f"  not known   thing {n}" for n in range(4)]


def test_without_a_culprit_the_lines_of_the_operators_are_shown(out: Path) -> None:
    one = replace(
        a_finding(out, repro=a_repro(out)), culprit=Culprit(), lines=(Source("net.py", 3), Source("net.py", 9))
    )
    assert "  lines       net.py:3, net.py:9 (of the operators in the repro)" in summary(a_result(one), out)


@pytest.mark.parametrize(
    ("verdict", "code", "first"),
    [
        (RunVerdict.OK, 0, "no failure seen (12 graphs compiled in 1 process)"),
        (RunVerdict.PROGRAM_ERROR, 3, "the program failed, and torch.compile was not seen to be why (exit code 3)"),
        (RunVerdict.NOT_WATCHED, 0, "nothing was watched"),
    ],
)
def test_runs_without_failures(out: Path, verdict: RunVerdict, code: int, first: str) -> None:
    lines = summary(a_result(verdict=verdict, exit_code=code, notes=("a note",)), out)
    assert lines == [f"torchsleuth: {first}", "  note: a note", "out/result.json"]


def test_a_failure_that_was_not_reproduced_says_why_once(out: Path) -> None:
    found = a_finding(out, why_not="it does not fail alone")
    lines = summary(a_result(found, verdict=RunVerdict.NOT_REPRODUCED, notes=("f1: it does not fail alone",)), out)
    assert lines[0] == "torchsleuth: 1 failure, not reproduced alone (12 graphs compiled in 1 process)"
    assert [line for line in lines if "does not fail alone" in line] == ["  no repro    it does not fail alone"]
    assert lines[-1] == "out/issue.md"


def test_the_first_verified_repro_is_the_one_to_act_on(out: Path) -> None:
    (out / "cases" / "f2").mkdir(parents=True)
    (out / "cases" / "f2" / "repro.py").touch()
    first = a_finding(out, why_not="no")
    second = a_finding(out, "f2", repro=a_repro(out, name="cases/f2/repro.py"))
    lines = summary(a_result(first, second), out)
    assert lines[0].startswith("torchsleuth: 2 failures (")
    assert lines[-1] == "out/cases/f2/repro.py"


def test_a_repro_that_is_gone_is_not_pointed_to(out: Path) -> None:
    assert summary(a_result(a_finding(out, repro=a_repro(out))), out)[-1] == "out/result.json"


def test_a_folder_elsewhere_is_named_in_full(tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert summary(a_result(verdict=RunVerdict.OK), elsewhere)[-1] == str(elsewhere / "result.json")


def test_no_control_sequence_reaches_the_terminal(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = replace(FAILURE, summary="\x1b[2J\x1b]0;title\x07 boo")
    terminal.summary(a_result(replace(a_finding(out), failure=evil)), out)
    assert "?[2J?]0;title? boo" in capsys.readouterr().out


def test_progress_without_a_terminal_is_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stderr.isatty()
    with terminal.progress() as say:
        say("judging [f1]")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("torchsleuth [  0.0s] judging [f1]")
