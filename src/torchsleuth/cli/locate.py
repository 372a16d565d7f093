"""torchsleuth locate CASE|COMMAND..."""

from __future__ import annotations

from pathlib import Path

import click

from torchsleuth.cli import options


@click.command("locate", context_settings=options.OF_A_COMMAND)
@options.out
@options.budget
@options.jobs
@click.option("--trust", is_flag=True, help="Run the code that a Case brings along (a backend, an operator).")
@click.argument("what", metavar="CASE|COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(out: Path | None, budget: float, jobs: int, trust: bool, what: tuple[str, ...]) -> int:
    """Say where inside the compiler a failure comes from, without reducing it.

    CASE is a folder like torchsleuth-out/.../cases/f1; COMMAND is any command line, as for `torchsleuth run`.  Layers
    of the compiler are switched off one by one, then passes, patterns, lowerings and fusions are let through one more
    at a time, until the single one to blame is known.  All of it happens in processes and cache folders of its own.

    Exit status: as for `torchsleuth run`.
    """
    from torchsleuth.commands import kept, pipeline
    from torchsleuth.write import terminal

    settings = pipeline.Settings(out=out, budget=budget, jobs=jobs, minimize=False, locate=True)
    with terminal.progress() as say:
        if len(what) == 1 and Path(what[0]).is_dir():
            result, folder = kept.investigate(Path(what[0]), settings, say, trust=trust, command="locate")
        else:
            result, folder = pipeline.run(what, settings, say)
    terminal.summary(result, folder)
    return result.verdict.exit_status
