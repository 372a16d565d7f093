"""How a run ended, in one word and in the notes beside it: nothing that was not seen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from torchsleuth.commands.run import Seen
from torchsleuth.judge.match import Match
from torchsleuth.watch import missing_hooks
from torchsleuth.watch.launcher import Ended
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import RunVerdict

_TOO_LARGE = (
    "{} graph{} too large to be compared with eager in the memory that is free; a smaller model or batch may be"
)
_NOT_KEPT = "{} more failure{} were seen and not kept: one process keeps the graphs of a limited number of them"


def notes_of(seen: Seen) -> list[str]:
    """What is to be said of how the program ran."""
    ended, summary = seen.ended, seen.summary
    found = []
    if ended.stopped:
        found.append(f"the program was ended by torchsleuth: {ended.why}")
    if ended.interrupted:
        found.append("the program was interrupted (Ctrl-C)")
    if ended.terminated:
        found.append(f"the program was sent {ended.terminated}, as the tool was")
    if summary.not_kept:
        found.append(_NOT_KEPT.format(summary.not_kept, "" if summary.not_kept == 1 else "s"))
    found += missing_hooks.messages(summary.trouble)
    if missing_hooks.other_trouble(summary.trouble):
        found.append("torchsleuth had trouble of its own while watching; see logs/trouble.log, and please report it")
    if summary.too_large:
        found.append(_TOO_LARGE.format(summary.too_large, " was" if summary.too_large == 1 else "s were"))
    if any(f.swallowed for f in summary.found):
        found.append("torch._dynamo.config.suppress_errors hid a failure from the program")
    return [*found, *seen.notes]


def told_of_suspect(finding: Finding, ended: Ended) -> Finding:
    """A stage that had not ended when the program did: it hangs only if that was confirmed, alone or while it ran."""
    if finding.reproduced or ended.stopped:
        return finding
    how = f"the program ended with {ended.exit_code}"
    if ended.interrupted or ended.terminated:
        how = f"it was stopped with {'Ctrl-C' if ended.interrupted else ended.terminated}"
    said = f"was still running when {how}; whether it hangs is not known"
    why = finding.why_not if finding.eager_fails_too else "; ".join(filter(None, [said, finding.why_not]))
    return replace(finding, failure=replace(finding.failure, summary=said), why_not=why)


def verdict_of(seen: Seen, findings: Sequence[Finding]) -> RunVerdict:
    ended, summary = seen.ended, seen.summary
    if any(f.reproduced for f in findings):
        return RunVerdict.FAILURE
    if findings and all(f.eager_fails_too for f in findings):
        return RunVerdict.PROGRAM_ERROR
    if findings:
        return RunVerdict.NOT_REPRODUCED
    if seen.in_eager is not Match.SAME and (not summary.graphs or _failed_unwatched(seen)):
        return RunVerdict.NOT_WATCHED
    return RunVerdict.PROGRAM_ERROR if ended.exit_code else RunVerdict.OK


def why(verdict: RunVerdict, seen: Seen, findings: Sequence[Finding]) -> list[str]:
    """The notes that the verdict itself asks for."""
    ended, summary = seen.ended, seen.summary
    if verdict is RunVerdict.NOT_WATCHED:
        return [_why_not_watched(seen)]
    if verdict is RunVerdict.OK:
        if summary.checked:
            return [f"no failure was seen; the numbers of {summary.checked} graphs were checked against eager"]
        return ["no failure was seen; the numbers were not checked against eager"]
    if verdict is RunVerdict.PROGRAM_ERROR:
        if findings:
            return [f"{f.id}: {f.why_not}" for f in findings]
        what = f" ({summary.uncaught.splitlines()[0]})" if summary.uncaught else ""
        return [f"the program ended with {ended.exit_code}{what}, and nothing that torch.compile did was seen to fail"]
    return [f"{f.id}: {f.why_not}" for f in findings if f.why_not]


def _failed_unwatched(seen: Seen) -> bool:
    """By an error of the compiler's own that came from no compilation that was watched."""
    error = seen.summary.error
    return bool(seen.ended.exit_code) and error is not None and error.from_compiler


def _why_not_watched(seen: Seen) -> str:
    summary = seen.summary
    if summary.processes == 0:
        switched_off = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1"
        if switched_off:
            return "nothing was watched: TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torchsleuth out of the program; unset it"
        return (
            "nothing was watched: no process of the program imported torch with torchsleuth installed beside it; "
            "install torchsleuth into the Python that the program runs"
        )
    if summary.error is not None and _failed_unwatched(seen):
        return (
            "what failed is nothing that torchsleuth can watch (AOTInductor, torch.export): the error comes from the "
            f"compiler's own code, and not from a graph of torch.compile ({summary.error.text.splitlines()[0][:200]})"
        )
    failed = f"the program ended with {seen.ended.exit_code}, and " if seen.ended.exit_code else ""
    return f"nothing was watched: {failed}the program imported torch, but no torch.compile was reached"
