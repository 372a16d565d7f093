"""torchsleuth pack: one zip to attach, with nothing in it that tells who somebody is."""

from __future__ import annotations

import ast
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import Cli
from outputs import FAILING, FAILURE, MESSAGE, WEIGHTS, a_case, a_finding, a_result, an_output_folder

from torchsleuth.case import folder
from torchsleuth.case.model import Code
from torchsleuth.write import redaction, stored
from torchsleuth.write.redaction import Redactor

USUAL = {"result.json", "repro.py", "issue.md", "cases/f1/graph.py", "cases/f1/case.json", "MANIFEST.txt"}


@pytest.fixture(autouse=True)
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """alice, on gpu-17, at home in tmp_path/home/alice."""
    home = tmp_path / "home" / "alice"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-17.example.org")


def names(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def read(path: Path, name: str) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name).decode()


def everything(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return "\n".join(archive.read(name).decode(errors="replace") for name in archive.namelist())


# --- what is in it ------------------------------------------------------------------------------------------------


def test_by_default_no_tensor_of_the_program_goes_along(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "torchsleuth-out" / "run")
    said = cli("pack")
    target = tmp_path / "torchsleuth-out" / "run.zip"
    assert (said.status, said.last_line) == (0, "torchsleuth-out/run.zip")
    assert names(target) == USUAL
    assert "weights-of-mine" not in everything(target)
    assert f"cases/f1/tensors.safetensors  {len(WEIGHTS):>12,} bytes  tensors of the program" in said.out
    assert "tensor data: none" in said.out


def test_the_manifest_that_is_printed_is_the_one_in_the_zip(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    said = cli("pack", "run")
    manifest = read(tmp_path / "run.zip", "MANIFEST.txt")
    assert said.out == f"{manifest}\nrun.zip\n"
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        for entry in archive.infolist():
            if entry.filename != "MANIFEST.txt":
                assert f"  {entry.filename:28}  {entry.file_size:>12,} bytes  text" in manifest.splitlines()


def test_data_packs_the_tensors_and_says_how_many_bytes(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    said = cli("pack", "--data", "run")
    assert names(tmp_path / "run.zip") == USUAL | {"cases/f1/tensors.safetensors"}
    assert f"cases/f1/tensors.safetensors  {len(WEIGHTS):>12,} bytes  TENSOR DATA" in said.out
    assert f"tensor data: {len(WEIGHTS)} bytes" in said.out
    assert "left out" not in said.out


def test_data_that_the_repro_needs_goes_along_unless_told_not_to(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "run")
    (out / "repro_data.pt").write_bytes(b"x" * 1234)
    assert "repro_data.pt                        1,234 bytes  TENSOR DATA" in cli("pack", "run").out
    said = cli("pack", "--no-data", "--force", "run")
    assert names(tmp_path / "run.zip") == USUAL
    assert "repro_data.pt                        1,234 bytes  tensors that repro.py reads: it does not run" in said.out


def test_data_that_stands_in_the_repro_as_literals_is_said(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "run"
    literals = f"x = torch.tensor({[0.5] * 64})\n"
    an_output_folder(out, source=FAILING + literals)
    manifest = cli("pack", "run").out.splitlines()
    marked = [line.split()[0] for line in manifest if line.endswith("TENSOR DATA")]
    assert marked == ["issue.md", "repro.py"]
    told = [line.split(maxsplit=1) for line in manifest if "holds" in line]
    assert told == [[name, "holds 64 numbers of your data as literals"] for name in marked]


def test_source_that_repros_and_cases_carry_is_said(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "run"
    finding = a_finding(out)
    assert finding.repro is not None
    finding = replace(finding, repro=replace(finding.repro, source_lines=5))
    code = Code("operator mylib::foo", "foo", "def foo(x):\n\n    return x\n")
    case = a_case()
    case = replace(case, surroundings=replace(case.surroundings, code=(code,)))
    an_output_folder(out, result=a_result(finding), case=case)
    manifest = cli("pack", "run").out.splitlines()
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in manifest if "of your source" in line}
    assert told == {
        "cases/f1/case.json": "holds 2 lines of your source",
        "issue.md": "holds 5 lines of your source",
        "repro.py": "holds 5 lines of your source",
    }
    assert "from your program:" in manifest


def test_where_nothing_of_the_program_is_packed_nothing_is_said(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    assert "from your program:" not in cli("pack", "run").out


def test_logs_links_and_strange_files_stay_behind(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "run")
    (tmp_path / "secret").write_text("the key")
    (out / "report.html").write_text("<html></html>")
    (out / "cases" / "f1" / "inner").symlink_to(tmp_path)
    (out / "repro_data.pt").symlink_to(tmp_path / "secret")
    (out / "core.1234").write_text("a dump")
    said = cli("pack", "--data", "run")
    assert names(tmp_path / "run.zip") == USUAL | {"report.html", "cases/f1/tensors.safetensors"}
    assert "the key" not in everything(tmp_path / "run.zip")
    assert "it is a link" in said.out
    assert "core.1234" in said.out


def test_what_was_packed_can_be_shown_opened_and_compared(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run", case=a_case(str(tmp_path / "model.py")))
    cli("pack", "run")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        archive.extractall(tmp_path / "there")
    assert cli("show", "there").last_line == "there/repro.py"
    case = folder.load(tmp_path / "there" / "cases" / "f1")
    assert [storage.kept for storage in case.storages] == [False]
    assert case.graph.nodes[1].source is not None
    assert case.graph.nodes[1].source.file == "<cwd>/model.py"
    assert stored.recorded_failure(tmp_path / "there" / "repro.py") == FAILURE
    assert (tmp_path / "there" / "repro.py").read_text() == FAILING


def test_a_case_packed_with_its_tensors_keeps_its_promise_of_them(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    cli("pack", "--data", "run")
    assert json.loads(read(tmp_path / "run.zip", "cases/f1/case.json"))["storages"][0]["kept"] is True


def test_environment_variables_are_listed(tmp_path: Path, cli: Cli) -> None:
    case = a_case(environment={"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "CXX": f"{tmp_path}/home/alice/bin/g++"})
    an_output_folder(tmp_path / "run", case=case)
    out = cli("pack", "run").out
    assert "environment variables carried:\n  CXX=<home>/bin/g++\n  TORCHINDUCTOR_MAX_AUTOTUNE=1\n" in out


# --- what is taken out --------------------------------------------------------------------------------------------


def test_nothing_tells_who_packed_it(tmp_path: Path, cli: Cli) -> None:
    home = tmp_path / "home" / "alice"
    text = (
        f"{home}/venv/lib/python3.11/site-packages/torch/nn.py {home}/x.py {tmp_path}/train.py "
        "/scratch/alice/run.py /tmp/torchinductor_alice/ab/c.py alice@gpu-17:~$ host gpu-17.example.org"
    )
    out = an_output_folder(tmp_path / "run", case=a_case(f"{home}/model.py"))
    (out / "issue.md").write_text(text)
    (out / "repro.py").write_text(f'"""{text}"""\n# {text}\n{FAILING}')
    cli("pack", "run")
    held = everything(tmp_path / "run.zip")
    for private in ("alice", "gpu-17", str(tmp_path), "/tmp/"):
        assert private not in held
    assert read(tmp_path / "run.zip", "issue.md") == (
        "<site-packages>/torch/nn.py <home>/x.py <cwd>/train.py "
        "/scratch/<user>/run.py <tmp>/torchinductor_<user>/ab/c.py <user>@<host>:~$ host <host>"
    )
    ast.parse(read(tmp_path / "run.zip", "repro.py"))


def test_the_folder_that_the_run_began_in_is_known_from_elsewhere(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    an_output_folder(project / "torchsleuth-out" / "run", case=a_case(f"{project}/model.py"))
    monkeypatch.chdir("/")
    assert cli("pack", project / "torchsleuth-out").status == 0
    assert "# <cwd>/model.py:31" in read(project / "torchsleuth-out" / "run.zip", "cases/f1/graph.py")


def test_other_paths_are_named_and_can_be_taken_out(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run", case=a_case("/scratch/moonshot/model.py"))
    assert (
        "left as they are (--redact TEXT takes one out):\n  /scratch/moonshot/model.py  2 times"
        in cli("pack", "run").out
    )
    said = cli("pack", "--force", "--redact", "/scratch/moonshot", "run")
    assert "left as they are" not in said.out
    assert "moonshot" not in everything(tmp_path / "run.zip")
    assert "<redacted>/model.py" in read(tmp_path / "run.zip", "cases/f1/graph.py")


def test_code_that_uses_the_name_of_somebody_still_runs() -> None:
    redactor = Redactor((), [("alice", "<user>")])
    source = 'alice = 1  # by alice\nx = {"by": "alice"}\n# body: alice/true\nprint(f"alice {alice}")\n'
    redacted = redactor.python(source)
    assert redacted.startswith('alice = 1  # by <user>\nx = {"by": "<user>"}\n# body: alice/true\nprint(f"')
    assert redactor.json({"target": "alice.weight", "text": "by alice"}) == {
        "target": "alice.weight",
        "text": "by <user>",
    }
    assert Redactor((), [("alice", "<user>")]).python("x = (alice") == "x = (<user>"


def test_names_are_whole_words_and_paths_whole_parts() -> None:
    redactor = Redactor([("/home/al", "<home>")], [("alice", "<user>"), ("vm", "<host>")])
    assert redactor.text("/home/al/x /home/al. /home/alan malice alices /vm/ vm") == (
        "<home>/x <home>. /home/alan malice alices /<host>/ vm"
    )
    assert redactor.replaced == {"<home>": 2, "<host>": 1}


@pytest.mark.parametrize("user", ["root", "ubuntu", "user"])
def test_a_name_that_names_nobody_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: user)
    redactor = redaction.of_this_machine(tmp_path / "run")
    assert redactor.text(f"the {user} of it") == f"the {user} of it"


def test_the_longest_place_wins_and_the_root_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    redactor = redaction.of_this_machine(tmp_path / "run")
    assert redactor.text(f"{tmp_path}/run/repro.py /usr/bin/g++") == "<out>/repro.py /usr/bin/g++"


# --- where it goes ------------------------------------------------------------------------------------------------


def test_an_existing_zip_is_overwritten_only_by_force(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    (tmp_path / "mine.zip").write_text("precious")
    said = cli("pack", "--output", "mine.zip", "run")
    assert said.status == 2
    assert "mine.zip exists already. Name another file with --output, or allow its loss with --force." in said.err
    assert (tmp_path / "mine.zip").read_text() == "precious"
    assert cli("pack", "--output", "mine.zip", "--force", "run").last_line == "mine.zip"
    assert names(tmp_path / "mine.zip") == USUAL


def test_a_folder_as_output_takes_the_zip(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    (tmp_path / "there").mkdir()
    assert cli("pack", "-o", "there", "run").last_line == "there/run.zip"


def test_what_goes_wrong_leaves_nothing(tmp_path: Path, cli: Cli) -> None:
    out = an_output_folder(tmp_path / "run")
    (out / "cases" / "f1" / "case.json").write_text("{")
    said = cli("pack", "run")
    assert said.status == 2
    assert "case.json is damaged" in said.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "run"]


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a place nobody can write")
def test_a_place_that_cannot_be_written(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    said = cli("pack", "-o", "/proc/x.zip", "run")
    assert said.status == 2
    assert "Cannot write /proc" in said.err
    assert said.err.endswith("or name another file with --output.\n")


def test_no_run_to_pack(tmp_path: Path, cli: Cli) -> None:
    assert "There is no output folder here." in cli("pack").err
    out = an_output_folder(tmp_path / "run", result=a_result(a_finding(tmp_path / "run")))
    (out / "result.json").write_text('{"schema": 7}')
    said = cli("pack", "run")
    assert said.status == 2
    assert "Upgrade torchsleuth" in said.err


def test_the_message_stays_readable(tmp_path: Path, cli: Cli) -> None:
    an_output_folder(tmp_path / "run")
    cli("pack", "run")
    assert MESSAGE in read(tmp_path / "run.zip", "issue.md")
