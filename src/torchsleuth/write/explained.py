"""explain.json as text for the terminal: what to look at first, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchsleuth.write.plain import printable

_MOST = 10


def tell(data: Mapping[str, Any], out: Path) -> None:
    path = out / "report.html"
    shown = os.path.relpath(path)
    last = shown if not shown.startswith("..") else str(path)
    print("\n".join(printable(line) for line in ("", *text(data), last)), flush=True)


def text(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"torchsleuth: {headline(data)}"
    yield from _breaks(data["breaks"])
    yield from _recompiles(data["recompiles"])
    yield from _frames(data["frames"])
    yield from _unlike(data.get("unlike", ()))
    yield from _times(data)
    for failure in data["failures"]:
        yield f"  failed: {' '.join(failure.split())[:200]}"
    if data["failures"]:
        yield "  To find out why: torchsleuth run, with the same command."
    for note in data["notes"]:
        yield f"  note: {note}"


def _unlike(unlike: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in unlike:
        counts = ", ".join(f"{times(n)} in {name}" for name, n in one["compiles"].items())
        yield f"  compiled unequally  {one['source']} in {one['function']}: {counts}"


def headline(data: Mapping[str, Any]) -> str:
    if not data["frames"]:
        return "nothing was compiled"
    parts = [
        count(data["graph_count"], "graph"),
        count(data["op_count"], "operator"),
        count(len(data["breaks"]), "graph break"),
        count(sum(r["count"] for r in data["recompiles"]), "recompilation"),
        f"{sum(f['seconds'] for f in data['frames']):.1f} s of compiling",
    ]
    return ", ".join(parts)


def count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def times(number: int) -> str:
    return "never" if number == 0 else "once" if number == 1 else "twice" if number == 2 else f"{number} times"


def how_often(found: Mapping[str, Any]) -> str:
    if found.get("raised"):
        return "an error, because of fullgraph=True"
    if not found.get("counted", True):
        return f"met by {count(found['compiles'], 'compilation')}"
    return f"hit {times(found['count'])}"


def what_is_lost(found: Mapping[str, Any]) -> str | None:
    """A sentence on functions that run uncompiled because of a break."""
    if not found["uncompiled"]:
        return None
    if found["uncompiled_itself"]:
        why = "It is inside a loop" if found["in_loop"] else "Dynamo cannot go on after it"
        return f"{why}, so the whole function runs uncompiled."
    names = " and ".join(f"{f['function']} ({f['source']})" for f in found["uncompiled"][:3])
    how = "in a loop" if found["in_loop"] else "where Dynamo cannot go on"
    return f"{names} comes to it {how}, and so runs uncompiled as a whole."


def _breaks(breaks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not breaks:
        return
    yield ""
    yield "  Graph breaks, the costliest first"
    for found in breaks[:_MOST]:
        yield ""
        yield f"  {found['source']} in {found['function']}: {found['reason']} ({how_often(found)})"
        line = _line(found)
        if line:
            yield f"      {line}"
        if lost := what_is_lost(found):
            yield f"      {lost}"
        yield from _wrapped(found["advice"])
        yield from _example(found)
    if len(breaks) > _MOST:
        yield f"  ... and {len(breaks) - _MOST} more; see the report"


def _recompiles(recompiles: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not recompiles:
        return
    yield ""
    yield "  Recompilations, by the guard that failed"
    for found in recompiles[:_MOST]:
        yield ""
        seen = f"; seen: {', '.join(found['values'][:12])}" if found["values"] else ""
        yield f"  {found['source']} in {found['function']}: {found['cause']} ({times(found['count'])}{seen})"
        line = _line(found)
        if line:
            yield f"      {line}"
        if found["limit_hit"]:
            yield f"      The limit is reached: {found['function']} runs uncompiled for what does not match."
        if found.get("tried"):
            yield f"      {found['tried']}"
        yield from _wrapped(found["advice"])
        yield from _example(found)
    if len(recompiles) > _MOST:
        yield f"  ... and {len(recompiles) - _MOST} more; see the report"


def _example(found: Mapping[str, Any]) -> Iterator[str]:
    made = found.get("example")
    if made is None:
        return
    if made["path"] is None:
        yield f"      No small script: {made['why_not']}."
    else:
        yield f"      {made['path']}: alone, in {count(made['lines'], 'line')}"


def _frames(frames: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not frames:
        return
    yield ""
    yield f"  {'Function':34} {'graphs':>6} {'ops':>6} {'compiled':>8} {'calls':>7} {'seconds':>8}"
    for frame in sorted(frames, key=lambda f: -f["seconds"])[:_MOST]:
        calls = "?" if frame["calls"] is None else str(frame["calls"])
        room = max(8, 31 - len(frame["function"]))  # the end of a path says more than its beginning
        where = frame["source"] if len(frame["source"]) <= room else "..." + frame["source"][3 - room :]
        short = f"{frame['function']} ({where})"
        yield (
            f"  {short:34} {frame['graphs']:>6} {frame['ops']:>6} {str(frame['compiles']) + 'x':>8} {calls:>7} "
            f"{frame['seconds']:>8.2f}"
        )
    if len(frames) > _MOST:
        yield f"  ... and {len(frames) - _MOST} more functions; see the report"


def _times(data: Mapping[str, Any]) -> Iterator[str]:
    steps = {name: seconds for name, seconds in data["steps"].items() if seconds >= 0.005}
    if not steps:
        return
    whole = sum(steps.values()) or 1.0
    yield ""
    yield "  Compile time"
    for name, seconds in steps.items():
        bar = "#" * max(1, round(30 * seconds / whole))
        yield f"  {name:18} {seconds:>8.2f} s  {bar}"


def _line(found: Mapping[str, Any]) -> str:
    number = found["source"].rpartition(":")[2]
    return next((str(t).strip() for n, t in found["lines"] if str(n) == number), "")


def _wrapped(advice: str, width: int = 100) -> Iterator[str]:
    import textwrap

    for i, line in enumerate(textwrap.wrap(advice, width)):
        yield f"      {'-> ' if i == 0 else '   '}{line}"
