"""torchsleuth show [DIR]"""

from __future__ import annotations

from pathlib import Path

import click


@click.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print result.json.")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("torchsleuth-out"))
def command(folder: Path, as_json: bool) -> int:
    """What a run found, again; or what `explain` said.

    DIR is the output folder of a run, or a folder of such folders: then the newest is shown.  By default it is
    torchsleuth-out.  The last line is the path to act on.

    Exit status: 0 shown, 2 there is nothing to show.
    """
    from torchsleuth.write import stored, terminal

    explained = stored.find_explained(folder)
    if explained is not None:
        name = stored.EXPLAINED if as_json else "explain.txt"
        click.echo(terminal.printable((explained / name).read_text(encoding="utf-8").rstrip("\n")))
        if not as_json:
            click.echo(str(explained / "report.html"))
        return 0
    run = stored.find_run(folder)
    result = stored.read_result(run)
    later = stored.unfinished_since(run)
    if later is not None:
        click.echo(f"torchsleuth: {later.name} began later and has no result: it goes on, or was killed.", err=True)
    if as_json:
        click.echo((run / stored.RESULT).read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(terminal.printable(f"{run}: {' '.join(map(str, result['command']))}"))
        terminal.tell(stored.read_account(run), run)
    return 0
