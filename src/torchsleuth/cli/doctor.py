"""torchsleuth doctor"""

from __future__ import annotations

import json
import os
import sys

import click


@click.command("doctor", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--python", metavar="OTHER", help="Ask about another interpreter, a path or a command.")
@click.option("--deep", is_flag=True, help="Also judge one operator from end to end; takes about 15 s.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(python: str | None, deep: bool, as_json: bool) -> int:
    """Can torchsleuth work here?

    Each line is a check: `ok`, `note` (it works, but know this), or `problem` with what to do about it.

    Exit status: 0 it can work, 2 it cannot.
    """
    from torchsleuth.doctor import checks, interpreter
    from torchsleuth.doctor.checks import State

    found = interpreter.find(python or sys.executable, os.environ)
    seen = []
    for check in checks.examine(found, os.environ):
        seen.append(check)
        if not (as_json or check.is_detail):
            click.echo(check.line)
    problems = sum(check.state is State.PROBLEM for check in seen)
    if deep and not problems:
        from torchsleuth.doctor import trial

        check = trial.judge_one_operator(found, os.environ)
        seen.append(check)
        problems += check.state is State.PROBLEM
        if not as_json:
            click.echo(check.line)
    if as_json:
        rows = [{"state": c.state.value, "what": c.what, "found": c.found, "advice": c.advice} for c in seen]
        click.echo(json.dumps({"schema": 1, "works": not problems, "checks": rows}, indent=1, ensure_ascii=False))
    elif problems:
        click.echo(f"torchsleuth cannot work here: {problems} problem{'s' * (problems != 1)}, see above.")
    else:
        click.echo("torchsleuth can work here." + ("" if deep else " (--deep tries it out.)"))
    return 2 if problems else 0
