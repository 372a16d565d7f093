"""torchsleuth audit DIR"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from torchsleuth.cli import options

_INTERRUPTED = 130


@click.command("audit", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--python", metavar="OTHER", help="An interpreter to run under, a path or a command (default: this one).")
@options.jobs
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Seconds to spend; what is left then cannot be made here (default: as long as it takes).",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Seconds for one process; longer is a hang.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: print one document and nothing else.",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def command(folder: Path, python: str | None, jobs: int, budget: float | None, deadline: float, layout: str) -> int:
    """Make every judgement behind every claim of a run again.

    DIR is the output folder of a run, from this machine or another, or one unpacked from the zip of `torchsleuth pack`.
    Every sentence in its result.json about what fails, passes, is needed, helps or is to blame is a claim that rests on
    judgements in judgements.jsonl.  Each of those is made again in fresh processes, from the scripts in candidates/.

    This runs the scripts of the folder, and commands that it records: audit only folders that you trust.

    Prints a row for each claim: it holds; it does not hold, and what the runs gave; it is not backed by what is on
    record; or it cannot be made here, and why.  The last line counts them.

    Exit status: 0 nothing is false (what cannot be made here is counted), 1 a claim does not hold or is not backed,
    2 bad usage, 130 interrupted with Ctrl-C.
    """
    from torchsleuth.commands import auditing
    from torchsleuth.doctor import interpreter
    from torchsleuth.errors import BadUsage
    from torchsleuth.write import audit_report, stored, terminal

    run = stored.find_run(folder)
    found = interpreter.with_torch(interpreter.find(python or sys.executable, os.environ), os.environ)
    if found.error:
        raise BadUsage(f"{found.path}: {found.error}. Name a Python that has torch with --python.")
    with terminal.progress() as say:
        settings = auditing.Settings(found.path, found.torch, jobs, budget, deadline)
        report = auditing.audit(run, settings, say)
    if layout == "json":
        click.echo(json.dumps(audit_report.to_json(report), indent=1, ensure_ascii=False))
    else:
        click.echo("\n".join(map(terminal.printable, audit_report.lines(report))))
    return _INTERRUPTED if report.interrupted else int(report.any_false)
