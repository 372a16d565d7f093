"""torchsleuth check FILE.py[:NAME]"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--python", metavar="OTHER", help="The interpreter to run it under (default: this one).")
@click.argument("what", metavar="FILE.py[:NAME]")
def command(what: str, python: str | None) -> int:
    """Does the compiled model agree with eager?

    NAME is a model or a function in FILE.py, or a function without arguments that returns one, alone or with its
    inputs (a tuple of arguments or a dict of keyword arguments); else inputs come from `inputs` or `make_inputs` of
    the file.  Without NAME, `make_model` or `model` is taken.  Outputs, what is left in inputs and buffers, and
    gradients are compared; a float64 run in eager tells errors from rounding.

    Exit status: 0 it agrees, 1 it is wrong, 2 bad usage, or the file itself fails.
    """
    from torchsleuth.errors import BadUsage

    file = what.partition(":")[0]
    if not Path(file).is_file():
        raise BadUsage(f"There is no file {file!r} in {Path.cwd()}. Check the path of the script.")
    with tempfile.TemporaryDirectory(prefix="torchsleuth-check-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [python or sys.executable, "-m", "torchsleuth.check_file", what, str(report)], check=False
        )
        if report.exists():
            if done.returncode == 1:
                click.echo(f"\nfor the operator and a repro.py: torchsleuth run torchsleuth check {what}")
            return done.returncode
    if done.returncode < 0:
        raise BadUsage(
            f"{file} ended by signal {-done.returncode} before it was compared. Try: torchsleuth run {file}."
        )
    if done.returncode != 2:
        raise BadUsage(f"{file} failed before it was compared; see above. Mend it, or try: torchsleuth run {file}.")
    return 2
