"""explain.json as text for the terminal: what to look at first, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchsleuth.write.explain_words import (
    bypass_in_short,
    cache_numbers,
    count,
    ends_in_short,
    guards_in_short,
    how_often,
    instances,
    ops_by_rank,
    outside_in_short,
    times,
    what_is_lost,
)
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
    yield from _others(data.get("other_instances", ()))
    yield from _frames(data["frames"])
    yield from _unlike(data)
    yield from _outside(data.get("outside", ()))
    yield from _caches(data.get("caches", {}))
    yield from _times(data)
    for failure in data["failures"]:
        yield f"  failed: {' '.join(failure.split())[:200]}"
    if data["failures"]:
        yield "  To find out why: torchsleuth run, with the same command."
    for sentence in data.get("not_known", ()):
        yield f"  not known: {sentence}"
    for note in data["notes"]:
        yield f"  note: {note}"


def _unlike(data: Mapping[str, Any]) -> Iterator[str]:
    for one in data.get("unlike", ()):
        counts = ", ".join(f"{times(n)} in {name}" for name, n in one["compiles"].items())
        yield f"  compiled unequally  {one['source']} in {one['function']}: {counts}"
    for one in data.get("unlike_graphs", ()):
        yield f"  different graphs    {one['source']} in {one['function']}: {ops_by_rank(one)}"
        yield from (f"      {sentence}" for sentence in one["differences"])
    for sentence in data.get("not_compared", ()):
        yield f"  not compared        {sentence}"


def headline(data: Mapping[str, Any]) -> str:
    outside = len(data.get("outside", ()))
    if not data["frames"]:
        return f"no torch.compile; {count(outside, 'graph')} without it" if outside else "no compilation was seen"
    parts = [
        count(data["graph_count"], "graph"),
        count(data["op_count"], "operator"),
        count(len(data["breaks"]), "graph break"),
        count(sum(r["count"] for r in data["recompiles"]), "recompilation"),
    ]
    if others := sum(o["count"] for o in data.get("other_instances", ())):
        parts.append(f"{count(others, 'first compilation')} of other modules")
    if failed := sum(f.get("failed", 0) for f in data["frames"]):
        parts.append(f"{count(failed, 'compilation')} failed")
    if outside:
        parts.append(f"{count(outside, 'graph')} without torch.compile")
    parts.append(f"{sum(f['seconds'] for f in data['frames']):.1f} s of compiling")
    return ("at least " if data.get("not_known") else "") + ", ".join(parts)


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
        often = times(found["count"]) if found["count"] else "not compiled again"
        yield f"  {found['source']} in {found['function']}: {found['cause']} ({often}{seen})"
        line = _line(found)
        if line:
            yield f"      {line}"
        if found["limit_hit"]:
            yield f"      The limit is reached: {found['function']} runs uncompiled for what does not match."
        if found.get("tried"):
            yield f"      {found['tried']}"
        if found.get("hint"):
            yield from _wrapped(found["hint"], "torch: ")
        yield from _wrapped(found["advice"])
        yield from _example(found)
    if len(recompiles) > _MOST:
        yield f"  ... and {len(recompiles) - _MOST} more; see the report"


def _others(others: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not others:
        return
    yield ""
    yield "  First compilations of other modules that share a function, by the guard that failed"
    for found in others[:_MOST]:
        yield ""
        seen = f"; seen: {', '.join(found['values'][:12])}" if found["values"] else ""
        yield f"  {found['source']} in {found['function']}: {instances(found)}"
        yield f"      compiled {times(found['count'])} more: {guards_in_short(found['causes'])}{seen}"
        if found["limit_hit"]:
            yield "      The limit is reached: what was compiled for none of them runs uncompiled."
        if found["hint"]:
            yield from _wrapped(found["hint"], "torch: ")
        yield from _wrapped(found["advice"])
    if len(others) > _MOST:
        yield f"  ... and {len(others) - _MOST} more; see the report"


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
            f"  {short:34} {frame['graphs']:>6} {frame['ops']:>6} {ends_in_short(frame):>8} {calls:>7} "
            f"{frame['seconds']:>8.2f}"
        )
    if len(frames) > _MOST:
        yield f"  ... and {len(frames) - _MOST} more functions; see the report"


def _outside(graphs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not graphs:
        return
    yield ""
    yield "  Graphs captured or compiled without torch.compile"
    for graph in graphs[:_MOST]:
        yield f"  {outside_in_short(graph)}"
    if len(graphs) > _MOST:
        yield f"  ... and {len(graphs) - _MOST} more; see explain.json"


def _caches(caches: Mapping[str, Any]) -> Iterator[str]:
    numbers = list(cache_numbers(caches))
    if not numbers:
        return
    yield ""
    yield "  Caches of compiled graphs"
    for name, told in numbers:
        yield f"  {name:18} {told}"
    for found in caches["bypasses"][:_MOST]:
        yield f"      {bypass_in_short(found)[:300]}"
    if len(caches["bypasses"]) > _MOST:
        yield f"      ... and {len(caches['bypasses']) - _MOST} more; see the report"


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


def _wrapped(advice: str, mark: str = "-> ", width: int = 100) -> Iterator[str]:
    import textwrap

    for i, line in enumerate(textwrap.wrap(advice, width)):
        yield f"      {mark if i == 0 else ' ' * len(mark)}{line}"
