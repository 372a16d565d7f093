"""torchsleuth backends"""

from __future__ import annotations

import dataclasses
import json

import click


@click.command("backends", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> int:
    """The backends that torchsleuth brings: what each runs, and what is ruled out where it passes.

    Each is a name for torch.compile(f, backend="sleuth_fake").  They go together: options={"with": ["sleuth_schema"]}.
    The order is that of the compiler: the first one that fails names the component.

    Exit status: 0.
    """
    from torchsleuth.backend_table import TABLE

    if as_json:
        rows = [dataclasses.asdict(row) for row in TABLE]
        click.echo(json.dumps({"schema": 1, "backends": rows}, indent=1, ensure_ascii=False))
        return 0
    for row in TABLE:
        click.echo(f"{row.name}\n  runs       {row.runs}\n  rules out  {row.rules_out}")
    return 0
