"""The functions of a program on the page of `torchsleuth explain`, below the places that called them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchsleuth.write.explain_words import count, times
from torchsleuth.write.markup import Content, Markup, tag

_OUTCOMES = {
    "compiled": ("good", "compiled whole"),
    "broken": ("warn", "compiled in pieces"),
    "eager": ("bad", "runs uncompiled"),
    "failed": ("bad", "failed to compile"),
    "not known": ("warn", "not known to have been compiled"),
}


def functions(data: Mapping[str, Any]) -> Content:
    if not data["frames"]:
        return None
    legend = tag(
        "p", [[tag("span", class_=f"dot {kind}"), f"{text}   "] for kind, text in _OUTCOMES.values()], class_="soft"
    )
    return [legend, tag("div", _branches(_tree(data["frames"])), class_="tree")]


def _tree(frames: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Frames below the places that the program came through to them."""
    root: dict[str, Any] = {"frames": [], "below": {}}
    for frame in frames:
        here = root
        for place in frame.get("stack", ())[-12:]:
            here = here["below"].setdefault(place, {"frames": [], "below": {}})
        here["frames"].append(frame)
    return root


def _branches(node: Mapping[str, Any]) -> Markup:
    items = [tag("li", _leaf(frame)) for frame in node["frames"]]
    items += [tag("li", tag("span", place, class_="place"), _branches(below)) for place, below in node["below"].items()]
    return tag("ul", items)


def _leaf(frame: Mapping[str, Any]) -> Content:
    kind, text = _OUTCOMES[frame["outcome"]]
    calls = "" if frame["calls"] is None else f", {count(frame['calls'], 'call')}"
    size = f"{count(frame['graphs'], 'graph')}, {count(frame['ops'], 'operator')}"
    facts = f" {size}, {_ends(frame)}{calls}, {frame['seconds']:.2f} s "
    return [
        tag("span", class_=f"dot {kind}", title=text),
        tag("b", frame["function"]),
        facts,
        tag("span", frame["source"], class_="place"),
    ]


def _ends(frame: Mapping[str, Any]) -> str:
    """How the compilations of a function ended."""
    told = [f"compiled {times(frame.get('succeeded', frame['compiles']))}"]
    if frame.get("failed"):
        told.append(f"failed to compile {times(frame['failed'])}")
    if frame.get("not_known"):
        told.append(f"not known of {frame['not_known']}")
    if frame.get("after_reset"):
        told.append(f"{frame['after_reset']} after torch._dynamo.reset()")
    return ", ".join(told)
