"""How a run ended, in one word and in the notes beside it: nothing that was not seen."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torchsleuth.commands.run import Seen
from torchsleuth.watch.found import Summary
from torchsleuth.write.findings import Finding
from torchsleuth.write.result import RunVerdict

_TOO_LARGE = (
    "{} graph{} too large to be compared with eager in the memory that is free; a smaller model or batch may be"
)


def notes_of(seen: Seen) -> list[str]:
    """What is to be said of how the program ran."""
    ended, summary = seen.ended, seen.summary
    found = []
    if ended.stopped:
        found.append(f"the program was ended by torchsleuth: {ended.why}")
    if ended.interrupted:
        found.append("the program was interrupted (Ctrl-C)")
    if summary.trouble:
        found.append("torchsleuth had trouble of its own while watching; see logs/trouble.log, and please report it")
    if summary.too_large:
        found.append(_TOO_LARGE.format(summary.too_large, " was" if summary.too_large == 1 else "s were"))
    if any(f.swallowed for f in summary.found):
        found.append("torch._dynamo.config.suppress_errors hid a failure from the program")
    return [*found, *seen.notes]


def verdict_of(seen: Seen, findings: Sequence[Finding]) -> RunVerdict:
    ended, summary = seen.ended, seen.summary
    if any(f.reproduced for f in findings):
        return RunVerdict.FAILURE
    if findings and all(f.eager_fails_too for f in findings):
        return RunVerdict.PROGRAM_ERROR if ended.exit_code else RunVerdict.OK
    if findings:
        return RunVerdict.NOT_REPRODUCED
    if ended.exit_code and summary.processes:
        return RunVerdict.PROGRAM_ERROR
    return RunVerdict.OK if summary.graphs else RunVerdict.NOT_WATCHED


def why(verdict: RunVerdict, seen: Seen, findings: Sequence[Finding]) -> list[str]:
    """The notes that the verdict itself asks for."""
    ended, summary = seen.ended, seen.summary
    if verdict is RunVerdict.NOT_WATCHED:
        return [_why_not_watched(summary)]
    if verdict is RunVerdict.OK:
        if summary.checked:
            return [
                f"no failure was seen; the numbers of {summary.checked} graphs were checked against eager",
                *_not_compared(summary),
            ]
        return ["no failure was seen; the numbers were not checked against eager", *_not_compared(summary)]
    if verdict is RunVerdict.PROGRAM_ERROR:
        if findings:
            return [f"{f.id}: {f.why_not}" for f in findings]
        what = f" ({summary.uncaught.splitlines()[0]})" if summary.uncaught else ""
        return [f"the program ended with {ended.exit_code}{what}, and nothing that torch.compile did was seen to fail"]
    return [f"{f.id}: {f.why_not}" for f in findings if f.why_not]


def _not_compared(summary: Summary) -> list[str]:
    return [f"not compared with eager: {', '.join(summary.not_compared)}"] if summary.not_compared else []


def _why_not_watched(summary: Summary) -> str:
    if summary.processes == 0:
        switched_off = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1"
        if switched_off:
            return "nothing was watched: TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torchsleuth out of the program; unset it"
        return (
            "nothing was watched: no process of the program imported torch with torchsleuth installed beside it; "
            "install torchsleuth into the Python that the program runs"
        )
    return "nothing was watched: the program imported torch, but no torch.compile was reached"
