"""The terminal: live progress where there is one, plain lines where there is not, and the summary at the end."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from torchsleuth.write.findings import Finding
from torchsleuth.write.repro_text import headline
from torchsleuth.write.result import Result, RunVerdict, show_source

Say = Callable[[str], None]


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Progress goes to standard error: standard output is the program's, and then the summary's."""
    began: list[float] = []

    def plain(text: str) -> None:
        began.append(time.monotonic()) if not began else None
        print(f"torchsleuth [{time.monotonic() - began[0]:5.1f}s] {text}", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield plain
        return
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    status: Status | None = None

    def live(text: str) -> None:
        nonlocal status
        began.append(time.monotonic()) if not began else None
        if status is None:
            status = console.status("")
            status.start()
        else:
            console.print(f"  [dim]{time.monotonic() - began[0]:5.1f}s[/dim] {_said[-1]}", highlight=False, markup=True)
        _said.append(text.replace("[", "\\["))
        status.update(_said[-1])

    _said: list[str] = []
    try:
        yield live
    finally:
        if status is not None:
            status.stop()


def summary(result: Result, out: Path) -> None:
    lines = ["", *(_verdict(result, out))]
    print("\n".join(lines), flush=True)


def _verdict(result: Result, out: Path) -> Iterator[str]:
    yield f"torchsleuth: {_headline(result)}"
    for finding in result.findings:
        yield from _finding(finding)
    for note in result.notes:
        yield f"  note: {note}"
    yield str(_path_to_act_on(result, out))


def _headline(result: Result) -> str:
    count = len(result.findings)
    watched = f"{result.graphs} graph{'s' * (result.graphs != 1)} in {result.processes} process{'es' * (result.processes != 1)}"
    return {
        RunVerdict.OK: f"no failure ({watched} watched)",
        RunVerdict.FAILURE: f"{count} failure{'s' * (count != 1)} found ({watched} watched)",
        RunVerdict.NOT_REPRODUCED: f"{count} failure{'s' * (count != 1)} found, not reproduced alone ({watched} watched)",
        RunVerdict.PROGRAM_ERROR: f"the program failed, and torch.compile is not why (exit code {result.exit_code})",
        RunVerdict.NOT_WATCHED: "nothing was watched",
    }[result.verdict]


def _finding(finding: Finding) -> Iterator[str]:
    yield ""
    yield f"  {finding.failure.kind.value} in {finding.component.value} ({finding.failure.phase.value})"
    yield f"  {headline(finding.failure)[:300]}"
    if finding.culprit.op:
        yield f"  operator  {finding.culprit.op}"
    if finding.culprit.source:
        yield f"  source    {show_source(finding.culprit.source)}: {finding.culprit.source.code[:100]}"
    for rung in finding.rungs:
        yield f"  {'fails' if rung.fails else 'passes' if rung.fails is False else '?':9} {rung.backend}"
    repro = finding.repro
    if repro is not None:
        state = f"fails alike in {repro.failed_runs} of {repro.runs} fresh processes"
        yield f"  repro     {repro.ops} operators, {repro.lines} lines, form {repro.form}; {state}"
    elif finding.why_not:
        yield f"  no repro  {finding.why_not[:600]}"


def _path_to_act_on(result: Result, out: Path) -> str:
    best = next((f.repro.path for f in result.findings if f.repro is not None and f.repro.verified), None)
    path = best or (out / "issue.md" if result.findings else out / "result.json")
    return os.path.relpath(path) if not os.path.relpath(path).startswith("..") else str(path)
