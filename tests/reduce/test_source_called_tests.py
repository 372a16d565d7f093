"""What pytest ran, as a script without pytest."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from torchsleuth.reduce.source import whole
from torchsleuth.reduce.source.called_tests import calls_of, file_of_tests
from torchsleuth.watch.session import Process

TESTS = """
import pytest

def test_plain():
    print("plain")

def test_with_a_fixture(tmp_path):
    print("fixture")

@pytest.mark.parametrize("x", [1, 2])
def test_each(x):
    print("each", x)

@pytest.mark.parametrize(("x", "y"), [(1, 2)])
@pytest.mark.slow
def test_both(x, y=3):
    print("both", x, y)

@pytest.mark.parametrize("x, y", [(1, 2)])
def test_two(x, y):
    print("two", x, y)

def helper():
    print("helper")

class TestThings:
    def test_one(self):
        print("one")

    def helper(self):
        print("helper")
"""


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["python", "-m", "pytest", "-q", "tests/test_a.py"], "tests/test_a.py"),
        (["python", "/venv/bin/pytest", "test_a.py::test_one", "test_a.py::test_two"], "test_a.py"),
        (["python", "-m", "pytest", "tests"], None),
        (["python", "-m", "pytest", "a.py", "b.py"], None),
        (["python", "-m", "pytest"], None),
        (["python", "train.py", "pytest.py"], None),
    ],
)
def test_the_file_is_the_one_that_the_command_names(words: list[str], file: str | None) -> None:
    assert file_of_tests(words) == file


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["test_a.py"], ["plain", "each 1", "each 2", "two 1 2", "one"]),
        (["test_a.py::test_plain"], ["plain"]),
        (["test_a.py::TestThings"], ["one"]),
        (["test_a.py::TestThings::test_one"], ["one"]),
        (["test_a.py::test_each[1]"], ["each 1", "each 2"]),
        (["test_a.py::test_with_a_fixture"], []),
    ],
)
def test_tests_that_need_no_fixture_are_called(words: list[str], says: list[str]) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(f"{TESTS}\n{calls_of(TESTS, words)}\n", {})
    assert said.getvalue().split("\n")[:-1] == says


def test_the_script_is_the_file_and_its_calls(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_bug():\n    pass\n")
    argv = ["python", "-m", "pytest", "-q", "test_a.py"]
    process = Process(tmp_path, {"argv": argv, "cwd": str(tmp_path)})
    assert whole.text_of(process) == "def test_bug():\n    pass\n\ntest_bug()\n"
    assert whole.file_of(process) == tmp_path / "test_a.py"
    (tmp_path / "test_a.py").write_text("def test_bug(tmp_path):\n    pass\n")
    assert whole.text_of(process) is None, "nothing of it can be called"
