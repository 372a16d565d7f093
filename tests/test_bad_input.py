"""What cannot be done is said in one paragraph, with status 2, and the program is not started."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import RunCli

RAN = "open('ran', 'w').close()\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a file when it runs."""
    script = tmp_path / "program.py"
    script.write_text(RAN)
    return script


@pytest.fixture
def refused(tmp_path: Path, program: Path, run_cli: RunCli):
    """Run it; the one paragraph it said."""

    def run(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        done = run_cli("run", *arguments)
        assert done.returncode == 2, done
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "ran").exists()
        assert sorted(tmp_path.rglob("*")) == before
        return done.stderr.strip()

    return run


def one_paragraph(said: str) -> None:
    assert said.startswith("torchsleuth: ")
    assert len(said.splitlines()) == 1
    assert said.endswith(".")


def test_a_folder_that_cannot_be_made_is_no_question_of_space(refused) -> None:
    said = refused("--out", "/proc/nowhere", "program.py")
    one_paragraph(said)
    assert "Check the path and its permissions" in said


def test_nothing_to_run(refused) -> None:
    assert "Missing argument 'COMMAND...'" in refused()


@pytest.mark.parametrize(
    "command", [["missing.py"], ["python", "missing.py"], ["python", "-u", "missing.py", "--flag"]]
)
def test_a_script_that_is_missing(refused, command: list[str], tmp_path: Path) -> None:
    said = refused(*command)
    one_paragraph(said)
    assert said == f"torchsleuth: There is no file 'missing.py' in {tmp_path}. Check the path of the script."


@pytest.mark.parametrize(
    "command", ["no-such-program", "./no-such-program", "--no-such-option", "", " ", "ünïcode-program"]
)
def test_a_command_that_is_not_found(refused, command: str) -> None:
    said = refused(command, "program.py")
    one_paragraph(said)
    assert f"{command!r} is not a program that can be started here" in said


def test_a_command_that_cannot_be_executed(refused, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("text")
    one_paragraph(refused("./plain.txt"))
    (tmp_path / "binary").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "binary").chmod(0o755)
    # Found out only when it is started: the output folder that was made by then goes again.
    assert refused("./binary") == "torchsleuth: './binary' cannot be started: Exec format error."


def test_an_output_folder_below_a_file(refused, program: Path) -> None:
    said = refused("--out", program / "out", "program.py")
    one_paragraph(said)
    assert f"Cannot write {program / 'out'}: Not a directory." in said


@pytest.mark.parametrize("where", ["/proc/torchsleuth", "/sys/torchsleuth", "/dev/null/x"])
def test_an_output_folder_where_nobody_can_write(refused, where: str) -> None:
    one_paragraph(refused("--out", where, "program.py"))


def test_an_output_folder_that_is_a_file(refused, program: Path) -> None:
    assert "is a file" in refused("--out", program, "program.py")


def test_an_output_folder_that_is_not_empty(refused, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("do not overwrite")
    said = refused("--out", "out", "program.py")
    one_paragraph(said)
    assert said == "torchsleuth: out is not empty. Name another folder with --out, or remove this one."


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--budget", "soon"), ("--budget", "-1"), ("--jobs", "0"), ("--jobs", "many"), ("--jobs", "1.5"),
        ("--hang-after", "never"), ("--hang-after", "-3"),
    ],
)  # fmt: skip
def test_a_bad_value(refused, option: str, value: str) -> None:
    said = refused(option, value, "program.py")
    assert f"Invalid value for '{option}'" in said
    assert value in said


def test_an_option_without_its_value(refused) -> None:
    assert "requires an argument" in refused("--out")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with no room left."""
    mount = tmp_path / "full"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if os.getuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        with contextlib.suppress(OSError), (mount / "filling").open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk(refused, full_disk: Path) -> None:
    said = refused("--out", full_disk / "out", "program.py")
    one_paragraph(said)
    assert "No space left on device. Free some space there, or choose another folder with --out DIR." in said
