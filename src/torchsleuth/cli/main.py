"""`torchsleuth`: the group of commands, and what happens to errors."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import Any, NoReturn

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
    "audit": "make every judgement behind every claim of a run again",
    "verify": "does a repro still fail, here and under other interpreters?",
    "pack": "one zip to attach to an issue: paths redacted, data listed",
    "backends": "the debugging backends for torch.compile: what each runs and rules out",
    "doctor": "can torchsleuth work here?",
}

_LIKE_SIGPIPE = 141  # as a shell tells of it
_SOFTWARE = 70  # EX_SOFTWARE
_OUR_FAULT = (
    "this is a fault of torchsleuth's own, and says nothing about your program. The traceback is above; what was found "
    "until then is in the output folder, if one was made. Please report it."
)


class _NobodyReads(Exception):
    """Whoever read what is printed has had enough of it."""


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

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # click itself would end with 1 for it, which here means a failure that was reproduced
            raise _NobodyReads from None

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
        _end("torchsleuth: interrupted", 130)
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        _end("", 2)
    except SleuthError as error:
        _end(f"torchsleuth: {error}", error.exit_status)
    except _NobodyReads:
        _end("", _LIKE_SIGPIPE)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _end(f"torchsleuth: {error.strerror or error}{where}. Nothing of your program was touched.", 2)
    except Exception:
        # Python's own status for this is 1, which here means that a failure was found and reproduced.
        _end(f"{traceback.format_exc()}torchsleuth: {_OUR_FAULT}", _SOFTWARE)


def _end(said: str, status: int) -> NoReturn:
    with contextlib.suppress(OSError):
        click.echo(said, err=True, nl=bool(said))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would try once more when it ends, and end with a status of its own
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)
