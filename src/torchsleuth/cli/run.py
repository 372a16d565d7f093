"""torchsleuth run COMMAND..."""

from __future__ import annotations

from pathlib import Path

import click

from torchsleuth.cli import options


@click.command("run", context_settings=options.OF_A_COMMAND)
@options.out
@options.budget
@options.jobs
@click.option("--no-minimize", is_flag=True, help="Stop at the first verified repro.")
@click.option("--keep-going", is_flag=True, help="Run a failing graph in eager and let the program go on.")
@click.option("--no-rerun", is_flag=True, help="Never run the program a second time.")
@click.option(
    "--hang-after",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds in one stage before a hang is suspected; 0: never.",
)
@click.option(
    "--capture",
    type=click.Choice(["auto", "1", "2", "3"]),
    default="auto",
    show_default=True,
    help="1: only keep what fails; 2: keep and minimize; 3: keep every graph before it runs (for crashes).",
)
@click.option(
    "--numerics",
    is_flag=True,
    help="Compare every compiled graph with eager while the program runs (else only once it has failed).",
)
@click.option(
    "--log",
    type=click.Choice(["steps", "debug"]),
    help="steps: print what the compiler begins and ends, while it does; debug: and each instruction that is traced.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    out: Path | None,
    budget: float,
    jobs: int,
    no_minimize: bool,
    keep_going: bool,
    no_rerun: bool,
    hang_after: float,
    capture: str,
    numerics: bool,
    log: str | None,
    command: tuple[str, ...],
) -> int:
    """Watch a program; find what failed, where, and write a repro.py that needs only torch.

    COMMAND is any command line that ends up importing torch: `python x.py`, `pytest tests/`, `torchrun ...`; a bare
    x.py means this Python.  Options of torchsleuth come before it.

    Exit status: 0 no failure, 1 a failure found and reproduced, 2 bad usage or nothing watched, 3 found but not
    reproduced alone, 4 the program failed for another reason.
    """
    from torchsleuth.commands import pipeline
    from torchsleuth.write import terminal

    settings = pipeline.Settings(
        out, budget, jobs, not no_minimize, keep_going, not no_rerun, hang_after, capture, numerics, log=log or ""
    )
    with terminal.progress() as say:
        result, folder = pipeline.run(command, settings, say)
    terminal.summary(result, folder)
    return result.verdict.exit_status
