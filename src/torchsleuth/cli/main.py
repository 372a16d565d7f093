"""`torchsleuth`: the group of commands, and what happens to errors."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from torchsleuth import __version__
from torchsleuth.errors import SleuthError

_COMMANDS = {
    "run": "watch a program; find, locate, reproduce, report",
    "explain": "graph breaks, recompilations, guards, compile time",
    "locate": "which component, pass, lowering or fusion, and which line",
    "minimize": "reduce a kept Case to the smallest program that fails in the same way",
    "check": "does the compiled model agree with eager?",
    "show": "what a run found, again",
    "verify": "does a repro still fail, here and under other interpreters?",
    "pack": "one zip to attach to an issue: paths redacted, data listed",
    "backends": "the debugging backends for torch.compile: what each runs and rules out",
    "doctor": "can torchsleuth work here?",
}


class _Commands(click.Group):
    """Loads a command's file when it is called: `--help` reads none of them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"torchsleuth.cli.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="torchsleuth")
def commands() -> None:
    """A debugger for torch.compile.

    Put `torchsleuth run` in front of a program that fails under torch.compile:

        torchsleuth run python train.py --epochs 1
    """


def main(arguments: list[str] | None = None) -> Any:
    try:
        status = commands.main(args=arguments, prog_name="torchsleuth", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Abort:
        click.echo("torchsleuth: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except SleuthError as error:
        click.echo(f"torchsleuth: {error}", err=True)
        sys.exit(error.exit_status)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"torchsleuth: {error.strerror or error}{where}. Nothing of your program was touched.", err=True)
        sys.exit(2)
