"""torchsleuth verify repro.py"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click


@click.command("verify", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="OTHER",
    help="An interpreter to run it under, a path or a command; may be given several times (default: this one).",
)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Runs under each.")
@click.option(
    "--deadline",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Seconds for one run; longer is a hang.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("script", metavar="repro.py", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def command(script: Path, pythons: tuple[str, ...], runs: int, deadline: float, as_json: bool) -> int:
    """Does a repro still fail, here and under other interpreters?

    Every run is a fresh process with private caches that cannot import torchsleuth.  A repro in its output folder is
    compared with the failure recorded there; any other script with the first failure that it shows.  Once more it is
    run with compilation switched off, where it has to pass.

    Exit status: 0 verified (it fails alike in all runs, everywhere), 1 somewhere it does not, 2 bad usage, or an
    interpreter that cannot be started or has no torch.
    """
    from torchsleuth.doctor import interpreter
    from torchsleuth.write import reverified, stored, terminal

    recorded = stored.recorded_failure(script)
    want = recorded
    rows = []
    with terminal.progress() as say:
        for word in pythons or (sys.executable,):
            found = interpreter.with_torch(interpreter.find(word, os.environ), os.environ)
            row = reverified.Row(found.path, found.version, found.torch, error=found.error)
            if not found.error:
                row, want = reverified.try_under(
                    reverified.Question(script, want, os.environ, runs, deadline), row, say
                )
            rows.append(row)
    if as_json:
        click.echo(json.dumps(reverified.to_json(script, recorded, rows), indent=1, ensure_ascii=False))
    else:
        if want is not None:
            click.echo(f"{'recorded' if recorded else 'first seen'}: {terminal.printable(want.fingerprint.line)}")
        click.echo("\n".join(map(terminal.printable, reverified.table(rows))))
        click.echo(f"{script}: {reverified.conclusion(rows, recorded)}")
    broken = [row for row in rows if row.error]
    for row in broken:
        click.echo(f"torchsleuth: {row.python}: {row.error}. Name a Python that has torch with --python.", err=True)
    return 2 if broken else 0 if all(row.verified for row in rows) else 1
