"""torchsleuth minimize CASE|SCRIPT"""

from __future__ import annotations

from pathlib import Path

import click

from torchsleuth.cli import options


def _list_passes(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from torchsleuth.reduce.passes import PASSES

    width = max(len(p.name) for p in PASSES)
    click.echo("\n".join(f"{p.name:{width}}  {p.does}" for p in PASSES))
    context.exit(0)


@click.command("minimize", context_settings={"help_option_names": ["-h", "--help"]})
@options.out
@options.budget
@options.jobs
@click.option("--trust", is_flag=True, help="Run the code that the Case brings along (a backend, an operator).")
@click.option(
    "--list-passes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_passes,
    help="Name the passes, and end.",
)
@click.option(
    "--check",
    metavar="CMD",
    help="A command that says whether a script still fails: it is run with the script's path appended, or in the place "
    "of {}; status 0: gone, 1 to 124: still there, 125: cannot say.",
)
@click.argument("what", metavar="CASE|SCRIPT", type=click.Path(path_type=Path, exists=True))
def command(out: Path | None, budget: float, jobs: int, trust: bool, check: str | None, what: Path) -> int:
    """Reduce a kept Case, or a script, to the smallest program that fails in the same way.

    CASE is a folder like torchsleuth-out/.../cases/f1, or the output folder of a run; where an earlier reduction was
    cut short, it goes on from there.  SCRIPT is a Python script that fails, also one that torch's own tools wrote:
    repro.py, minifier_launcher.py, fx_graph_runnable.py.

    Exit status: 1 reproduced and reduced, 2 bad input, 3 it does not fail alone here, 4 it fails in eager too; 0 where
    a script does not fail.
    """
    from torchsleuth.commands import checked, kept, pipeline, scripts
    from torchsleuth.write import terminal

    settings = pipeline.Settings(out=out, budget=budget, jobs=jobs, rerun=False)
    with terminal.progress() as say:
        if check is not None:
            result, folder = checked.minimise(what, check, settings, say, trust=trust)
        elif what.is_file():
            result, folder = scripts.minimise(what, settings, say)
        else:
            result, folder = kept.investigate(what, settings, say, trust=trust)
    terminal.summary(result, folder)
    return result.verdict.exit_status
