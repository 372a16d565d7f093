"""Every command explains itself, quickly, and what is not a command is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_helpers import Cli

from torchsleuth.cli.main import _COMMANDS, commands

# Importing a command must not do it either: its help is read at a prompt.
HELP = """
import sys
from torchsleuth.cli import main
try:
    main([*sys.argv[1:], "--help"])
except SystemExit as ended:
    assert ended.code == 0
heavy = {"torch", "rich", "safetensors", "numpy"} & {name.partition(".")[0] for name in sys.modules}
print("HEAVY", sorted(heavy))
"""


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_every_command_has_help(cli: Cli, name: str) -> None:
    for flag in ("--help", "-h"):
        said = cli(name, flag)
        assert (said.status, said.err) == (0, "")
        assert said.out.startswith(f"Usage: torchsleuth {name} ")
        assert "Exit status:" in said.out


def test_the_commands_are_listed_and_so_named(cli: Cli) -> None:
    listed = cli("--help").out
    for name, what in _COMMANDS.items():
        assert f"  {name} " in listed
        assert what.split()[0] in listed
        found = commands.get_command(None, name)  # type: ignore[arg-type]
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize("words", [[], *([name] for name in _COMMANDS)], ids=lambda words: " ".join(words) or "-")
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["HEAVY []"], done.stderr


@pytest.mark.parametrize("words", [["frobnicate"], ["show", "--frobnicate"], ["doctor", "more"]])
def test_what_is_not_there_is_bad_usage(cli: Cli, words: list[str]) -> None:
    said = cli(*words)
    assert (said.status, said.out) == (2, "")
    assert "frobnicate" in said.err or "more" in said.err


def test_version(cli: Cli) -> None:
    said = cli("--version")
    assert said.status == 0
    assert said.out.startswith("torchsleuth, version ")
