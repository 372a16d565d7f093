"""The terminal: live progress where there is one, plain lines where there is not, and the summary at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchsleuth.write import account
from torchsleuth.write.account import Account, Entry
from torchsleuth.write.plain import printable as printable
from torchsleuth.write.progress import progress as progress
from torchsleuth.write.repro_text import headline
from torchsleuth.write.result import Result, RunVerdict


def summary(result: Result, out: Path) -> None:
    tell(account.of_result(result, out), out)


def tell(found: Account, out: Path) -> None:
    print("\n".join(printable(line) for line in ("", *lines(found, out))), flush=True)


def lines(found: Account, out: Path) -> Iterator[str]:
    yield f"torchsleuth: {_headline(found)}"
    for entry in found.entries:
        yield from _entry(entry)
    said = {f"{e.id}: {e.why_not}" for e in found.entries if e.repro is None and e.why_not}
    for note in found.notes:
        if note not in said:
            yield f"  note: {note}"
    yield _path_to_act_on(found, out)


def _headline(found: Account) -> str:
    count = f"{len(found.entries)} failure{'s' * (len(found.entries) != 1)}"
    watched = (
        f"{found.graphs} graph{'s' * (found.graphs != 1)} in {found.processes} process{'es' * (found.processes != 1)}"
    )
    return {
        RunVerdict.OK: f"no failure ({watched} watched)",
        RunVerdict.FAILURE: f"{count} found ({watched} watched)",
        RunVerdict.NOT_REPRODUCED: f"{count} found, not reproduced alone ({watched} watched)",
        RunVerdict.PROGRAM_ERROR: "the program failed, and torch.compile was not seen to be why "
        f"(exit code {found.exit_code})",
        RunVerdict.NOT_WATCHED: "nothing was watched",
    }[found.verdict]


def _entry(entry: Entry) -> Iterator[str]:
    yield ""
    yield f"  {entry.failure.kind.value} in {entry.component} ({entry.failure.phase.value})"
    yield f"  {headline(entry.failure)[:300]}"
    if entry.op:
        yield f"  operator  {entry.op}"
    if entry.compiler_pass:
        yield f"  inside    {entry.compiler_pass}"
    if entry.module:
        yield f"  module    {entry.module}"
    if entry.source:
        yield f"  source    {entry.source}{': ' + entry.code[:100] if entry.code else ''}"
    for backend, fails in entry.rungs:
        yield f"  {'fails' if fails else 'passes' if fails is False else '?':9} {backend}"
    for what, passes in entry.ablation:
        yield f"  {'passes' if passes else 'fails':9} without {what}"
    if entry.workaround:
        lines = entry.workaround.splitlines()
        yield f"  workaround  {lines[0]}" if len(lines) == 1 else "  workaround"
        yield from (f"    {line}" for line in lines if len(lines) > 1)
    if entry.needed:
        yield f"  needed    {'; '.join(entry.needed)}"
    repro = entry.repro
    if repro is not None:
        state = f"fails alike in {repro.failed_runs} of {repro.runs} fresh processes"
        size = f"{repro.ops} operator{'s' * (repro.ops != 1)}, {repro.lines} lines"
        yield f"  repro     {size}, form {repro.form}; {state}"
    elif entry.why_not:
        yield f"  no repro  {entry.why_not[:600]}"


def _path_to_act_on(found: Account, out: Path) -> str:
    best = next((out / e.repro.path for e in found.entries if e.repro is not None and e.repro.verified), None)
    wanted = best or (out / "issue.md" if found.entries else out / "result.json")
    # A page may be written after this is said, or have been moved away since.
    path = wanted if best is None or best.exists() else out / "result.json"
    return os.path.relpath(path) if not os.path.relpath(path).startswith("..") else str(path)
