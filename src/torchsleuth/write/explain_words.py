"""Short sentences about what explain.json holds, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


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


def instances(found: Mapping[str, Any]) -> str:
    name = str(found["class"]).rpartition(".")[2]
    if found["instances"] is None:
        return f"several modules of class {name}, or one that was changed: the trace does not tell"
    # Once the limit is reached torch looks at no further one.
    return f"{found['instances']}{' or more' if found['limit_hit'] else ''} modules of class {name}"


def guards_in_short(causes: Sequence[str]) -> str:
    more = f" and {count(len(causes) - 3, 'other guard')}" if len(causes) > 3 else ""
    return "; ".join(causes[:3]) + more


def ends_in_short(frame: Mapping[str, Any]) -> str:
    """`2x`; of a function with a compilation that failed, or of which no end was seen, how many those are."""
    if frame.get("failed"):
        return "failed" if not frame["succeeded"] else f"{frame['succeeded']}x, {frame['failed']} failed"
    if frame.get("not_known"):
        return "?" if not frame["succeeded"] else f"{frame['succeeded']}x, {frame['not_known']} ?"
    return f"{frame['compiles']}x"


_OUTSIDE = {
    "unknown": "a part of torch that its records do not name",
    "Dynamo": "Dynamo, asked by something other than torch.compile (torch.export with strict=True)",
}


def outside_in_short(graph: Mapping[str, Any]) -> str:
    what = _OUTSIDE.get(graph["what"], graph["what"])
    ops = "an unknown number of operators" if graph["ops"] is None else count(graph["ops"], "operator")
    seconds = "" if graph["seconds"] is None else f", {graph['seconds']:.2f} s"
    failed = f"; failed: {' '.join(graph['failed'].split())[:160]}" if graph["failed"] else ""
    return f"{what}: {ops}{seconds}{failed}"


CACHES = {"fx_graph": "FX graph cache", "aotautograd": "AOTAutograd cache"}
_STATES = (("hit", "hits"), ("miss", "misses"), ("bypass", "bypasses"), ("disabled", "lookups while it was disabled"))


def cache_numbers(caches: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A cache and what it gave: FX graph cache, 2 hits, 1 bypass."""
    for key, name in CACHES.items():
        numbers = caches.get(key, {})
        told = [f"{numbers[one]} {one if numbers[one] == 1 else many}" for one, many in _STATES if numbers.get(one)]
        if told:
            yield name, ", ".join(told)


def bypass_in_short(found: Mapping[str, Any]) -> str:
    reason = found["reason"] or "torch gave no reason that can be read"
    return f"{CACHES[found['cache']]} bypassed for {found['function']} ({times(found['count'])}): {reason}"


def ops_by_rank(one: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{'an unknown number of' if n is None else n} operators in {name}" for name, n in one["ops"].items()
    )


def no_break(data: Mapping[str, Any]) -> tuple[str, bool]:
    """What is known where no graph break was seen, and whether it is all well."""
    others = [frame for frame in data["frames"] if frame["outcome"] != "compiled"]
    if not others and not data.get("not_known"):
        return "None: every function was captured whole.", True
    return " ".join(["None was seen.", *_other_ends(others), *_open(data)]), False


def no_recompilation(data: Mapping[str, Any]) -> tuple[str, bool]:
    """What is known where no guard was seen to fail, and whether it is all well."""
    again = [frame for frame in data["frames"] if frame["compiles"] > 1]
    once = all(frame["outcome"] in ("compiled", "broken") and frame["compiles"] == 1 for frame in data["frames"])
    if once and not data.get("not_known") and all(frame["calls"] is not None for frame in data["frames"]):
        return "None: what was compiled first served every call.", True
    sentences = ["No guard was seen to fail.", *(_compiled_again(frame) for frame in again), *_open(data)]
    return " ".join(sentences), not again and not data.get("not_known")


def _compiled_again(frame: Mapping[str, Any]) -> str:
    reset = frame.get("after_reset", 0)
    why = " after torch._dynamo.reset()" if reset and reset == frame["compiles"] - 1 else ""
    return f"{frame['function']} ({frame['source']}) was compiled {times(frame['compiles'])}{why}."


_OTHER_ENDS = {
    "failed": "Failed to compile",
    "eager": "Not compiled",
    "broken": "Compiled in pieces",
    "not known": "Not known to have been compiled",
}


def _other_ends(frames: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for outcome, what in _OTHER_ENDS.items():
        names = [f"{frame['function']} ({frame['source']})" for frame in frames if frame["outcome"] == outcome]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        if names:
            yield f"{what}: {', '.join(names[:5])}{more}."


def _open(data: Mapping[str, Any]) -> Iterator[str]:
    if data.get("not_known"):
        yield f"Not known: {'; '.join(data['not_known'])}."


def ranks_agree(data: Mapping[str, Any]) -> str | None:
    """What the processes agree on; None where they do not agree, or where nothing of them could be compared."""
    if data["unlike"] or data.get("unlike_graphs") or data.get("not_compared") or "unlike_graphs" not in data:
        return None
    return (
        "Each process compiled every function equally often, and captured graphs with the same operators in the same "
        "order. Sizes, dtypes and values were not compared."
    )
