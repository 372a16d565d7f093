"""torchsleuth pack [DIR]"""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command("pack", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE.zip",
    help="Where the zip goes (default: beside DIR, by its name).",
)
@click.option(
    "--data/--no-data",
    default=None,
    help="Pack all tensors that were kept, weights among them; or none, not even those that repro.py needs.",
)
@click.option("--redact", multiple=True, metavar="TEXT", help="Take this text out too; may be given several times.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("torchsleuth-out"))
def command(folder: Path, output: Path | None, data: bool | None, redact: tuple[str, ...], force: bool) -> int:
    """One zip to attach to an issue: paths redacted, data listed.

    DIR is the output folder of a run, or a folder of such folders: then the newest is packed.  By default the zip holds
    the result, the repro with the data it needs in order to fail, the pages, and the Cases without their tensors.  Your
    home, working and temporary folders, user name and host name are replaced in all text; MANIFEST.txt lists what is
    in the zip.  Read it before you attach it: your source lines and your error messages are part of a report.

    Exit status: 0 packed, 2 it could not be.  The last line is the path of the zip.
    """
    from torchsleuth.write import packing, redaction, stored
    from torchsleuth.write.packing import Data

    run = stored.find_run(folder)
    beside = run.resolve().parent / f"{run.resolve().name}.zip"
    target = beside if output is None else output / beside.name if output.is_dir() else output
    packing.check_output(target, force)
    wanted = {None: Data.REPRO, True: Data.ALL, False: Data.NONE}[data]
    _, manifest = packing.write(packing.plan(run, wanted), target, redaction.of_this_machine(run, redact))
    click.echo(manifest)
    shown = os.path.relpath(target)
    click.echo(str(target) if shown.startswith("..") else shown)
    return 0
