"""The terminal: live progress where there is one, plain lines where there is not, and the summary at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchsleuth.case.failure import Phase
from torchsleuth.diagnose.claim import Topic, of
from torchsleuth.write import account, sentences
from torchsleuth.write.account import Account, Entry, ReproEntry
from torchsleuth.write.plain import printable as printable
from torchsleuth.write.progress import progress as progress
from torchsleuth.write.repro_text import headline
from torchsleuth.write.result import Result, RunVerdict

_MOST_LINES = 4
_MOST_UNKNOWN = 4
_PHASES = {
    Phase.COMPILE_FORWARD: "compiling the forward graph",
    Phase.COMPILE_BACKWARD: "compiling the backward graph",
    Phase.RUN_FORWARD: "running the compiled forward",
    Phase.RUN_BACKWARD: "running the compiled backward",
}


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
        f"{found.graphs} graph{'s' * (found.graphs != 1)} compiled in "
        f"{found.processes} process{'es' * (found.processes != 1)}"
    )
    return {
        RunVerdict.OK: f"no failure seen ({watched})",
        RunVerdict.FAILURE: f"{count} ({watched})",
        RunVerdict.NOT_REPRODUCED: f"{count}, not reproduced alone ({watched})",
        RunVerdict.PROGRAM_ERROR: "the program failed, and torch.compile was not seen to be why "
        f"(exit code {found.exit_code})",
        RunVerdict.NOT_WATCHED: "nothing was watched",
    }[found.verdict]


def _entry(entry: Entry) -> Iterator[str]:
    yield ""
    place = "" if entry.component == "unknown" else f" in {entry.component}"
    yield f"  {entry.failure.kind.value}{place}, {_PHASES[entry.failure.phase]}"
    yield f"  {headline(entry.failure)[:300]}"
    yield ""
    for name, value in _facts(entry):
        first, *rest = value.splitlines()
        yield f"  {name:<11} {first}"
        yield from (f"  {'':<11} {line}" for line in rest)


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    claims = entry.claims
    if entry.op:
        yield "operator", f"{entry.op}, in {entry.module}" if entry.module else entry.op
    if entry.source:
        yield "line", f"{entry.source}{': ' + entry.code[:100] if entry.code else ''}"
    elif entry.lines:
        yield "lines", f"{', '.join(entry.lines[:_MOST_LINES])} (of the operators in the repro)"
    cause = sentences.cause(claims) or entry.compiler_pass
    if cause:
        yield "cause", cause
    if sentences.backends(claims):
        yield "backends", sentences.backends(claims)
    for one in of(claims, Topic.SETTING):
        yield "setting", one.text
    if entry.workaround:
        yield "workaround", entry.workaround
    if sentences.needed(claims):
        yield "needed", sentences.listed(sentences.needed(claims))
    repro = entry.repro
    if repro is not None:
        size = f"{repro.ops} operator{'s' * (repro.ops != 1)}, {repro.lines} lines"
        state = sentences.fresh(claims) if repro.verified else _unverified(repro)
        yield "repro", f"{size}; {state}" if state else size
    elif entry.why_not:
        yield "no repro", entry.why_not[:600]
    for what in entry.not_known[:_MOST_UNKNOWN]:
        yield "not known", what


def _unverified(repro: ReproEntry) -> str:
    return f"not verified: {repro.failed_runs} of {repro.runs} runs ended as in the program"


def _path_to_act_on(found: Account, out: Path) -> str:
    best = next((out / e.repro.path for e in found.entries if e.repro is not None and e.repro.verified), None)
    wanted = best or (out / "issue.md" if found.entries else out / "result.json")
    # A page may be written after this is said, or have been moved away since.
    path = wanted if best is None or best.exists() else out / "result.json"
    return os.path.relpath(path) if not os.path.relpath(path).startswith("..") else str(path)
