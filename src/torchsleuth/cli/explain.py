"""torchsleuth explain COMMAND..."""

from __future__ import annotations

from pathlib import Path

import click

from torchsleuth.cli import options


@click.command("explain", context_settings=options.OF_A_COMMAND)
@options.out
@click.option("--fullgraph", is_flag=True, help="End the program at its first graph break, with status 1.")
@click.option(
    "--try-dynamic", is_flag=True, help="Run it once more with changing sizes marked dynamic, and say what that stops."
)
@click.option("--ir", is_flag=True, help="Keep Inductor's loops before and after fusion, for graphs it compiles anew.")
@click.option("--minimize", is_flag=True, help="Make a small script of each graph break and recompilation (examples/).")
@options.budget
@options.jobs
@click.option("--json", "as_json", is_flag=True, help="Print explain.json in place of the text.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    out: Path | None,
    fullgraph: bool,
    try_dynamic: bool,
    ir: bool,
    minimize: bool,
    budget: float,
    jobs: int,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Say what torch.compile makes of a program: graph breaks, recompilations, guards, compile time.

    COMMAND is any command line that ends up importing torch: `python x.py`, `pytest tests/`, `torchrun ...`; a bare
    x.py means this Python.  A folder that TORCH_TRACE has filled earlier, or a file of it, will do as well.  Options of
    torchsleuth come before it.

    Exit status: 0 explained, 1 a graph break with --fullgraph, 2 bad usage or no compilation seen, 4 the program itself
    failed (what it did until then is explained).
    """
    import json

    from torchsleuth.commands import explaining
    from torchsleuth.write import explained
    from torchsleuth.write.progress import progress

    with progress() as say:
        found = explaining.explain_command(
            command, out, say, fullgraph=fullgraph, try_dynamic=try_dynamic, ir=ir, minimize=minimize, budget=budget,
            jobs=jobs,
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found.data, indent=1))
    else:
        explained.tell(found.data, found.out)
    if fullgraph and found.data["breaks"]:
        return 1
    return found.exit_status
