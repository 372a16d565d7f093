"""torchsleuth check FILE.py[:NAME]"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--record", metavar="DIR", help="Note what each operator gives, in a new folder.")
@click.option("--against", metavar="DIR", help="Compare each operator with such a record, of another machine or torch.")
@click.option("--compiled", is_flag=True, help="With these two: as Inductor computes it (default: as eager does).")
@click.option("--python", metavar="OTHER", help="The interpreter to run it under (default: this one).")
@click.argument("what", metavar="FILE.py[:NAME]")
def command(what: str, python: str | None, record: str | None, against: str | None, compiled: bool) -> int:
    """Does the compiled model agree with eager?

    NAME is a model or a function in FILE.py, or a function without arguments that returns one, alone or with its
    inputs (a tuple of arguments or a dict of keyword arguments); else inputs come from `inputs` or `make_inputs` of
    the file.  Without NAME, `make_model` or `model` is taken.  Outputs, what is left in inputs and buffers, and
    gradients are compared; a float64 run in eager tells errors from rounding.

    With --record and --against, a model is compared with itself: run here and there, under two versions of torch,
    eager and compiled.  Operators are aligned by module path and name; the first that parts while what it was given
    is alike is named.  Only the forward is compared so.

    What cannot be compared is named on the first line.

    Exit status: 0 it agrees, 1 it is wrong, 2 bad usage, the file itself fails, or nothing was compiled or compared.
    """
    from torchsleuth.errors import BadUsage

    file = what.partition(":")[0]
    if not Path(file).is_file():
        raise BadUsage(f"There is no file {file!r} in {Path.cwd()}. Check the path of the script.")
    recording = _recording(record, against, compiled)
    with tempfile.TemporaryDirectory(prefix="torchsleuth-check-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [python or sys.executable, "-m", "torchsleuth.library.check_file", what, str(report), *recording],
            check=False,
        )
        if report.exists():
            if done.returncode == 1 and not recording:
                click.echo(f"\nfor the operator and a repro.py: torchsleuth run torchsleuth check {what}")
            return done.returncode
    if done.returncode < 0:
        raise BadUsage(
            f"{file} ended by signal {-done.returncode} before it was compared. Try: torchsleuth run {file}."
        )
    if done.returncode != 2:
        raise BadUsage(f"{file} failed before it was compared; see above. Mend it, or try: torchsleuth run {file}.")
    return 2


def _recording(record: str | None, against: str | None, compiled: bool) -> list[str]:
    from torchsleuth.errors import BadUsage

    if record and against:
        raise BadUsage("--record makes a record and --against reads one. Give one of the two.")
    if compiled and not (record or against):
        raise BadUsage("--compiled goes with --record or --against. Without them, compiled is compared with eager.")
    if record and Path(record).exists() and (not Path(record).is_dir() or any(Path(record).iterdir())):
        raise BadUsage(f"{record} is not empty. Name another folder, or remove this one.")
    if against and not (Path(against) / "records.json").is_file():
        raise BadUsage(f"{against} holds no record. Make one with --record {against}.")
    if not (record or against):
        return []
    return ["record" if record else "against", str(record or against), "compiled" if compiled else "eager"]
