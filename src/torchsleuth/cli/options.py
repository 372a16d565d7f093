"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

# Of commands that take another command line: what comes after its first word is that command's own.
OF_A_COMMAND = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}

out = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Output folder (default: a new one in torchsleuth-out/).",
)
budget = click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds to spend, after the program ended.",
)
jobs = click.option(
    "--jobs", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Judgements at once."
)
