"""Sections of the page of `torchsleuth explain` that most programs have no need of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchsleuth.write.explain_words import (
    bypass_in_short,
    cache_numbers,
    instances,
    ops_by_rank,
    outside_in_short,
    ranks_agree,
    times,
)
from torchsleuth.write.markup import Content, Markup, table, tag

Section = tuple[str, str, Content]  # id, title, content


def other_sections(data: Mapping[str, Any]) -> Iterator[Section]:
    """What earlier versions did not write is not asked for."""
    if others := data.get("other_instances"):
        yield "instances", f"Other modules ({len(others)})", [_instance(found) for found in others]
    if outside := data.get("outside"):
        rows = tag("ul", [tag("li", outside_in_short(graph)) for graph in outside])
        yield "outside", f"Without torch.compile ({len(outside)})", rows
    if numbers := list(cache_numbers(data.get("caches", {}))):
        yield "caches", "Caches of compiled graphs", _caches(numbers, data["caches"]["bypasses"])


def _instance(found: Mapping[str, Any]) -> Markup:
    values = ", ".join(found["values"][:40])
    return tag(
        "article",
        tag(
            "header",
            tag("h3", instances(found)),
            tag("span", f"compiled {times(found['count'])} more", class_="badge warn"),
            tag("span", f"{found['source']} in {found['function']}", class_="place"),
        ),
        tag("p", "What tells them apart: ", [[tag("code", cause), " "] for cause in found["causes"][:20]]),
        tag("p", tag("b", "Values seen: "), values) if values else None,
        tag("p", "The limit is reached: what was compiled for none of them runs uncompiled.", class_="bad")
        if found["limit_hit"]
        else None,
        tag("p", tag("b", "torch: "), found["hint"]) if found["hint"] else None,
        tag("p", tag("b", "What to do: "), found["advice"], class_="do"),
        class_="card",
    )


def _caches(numbers: Sequence[tuple[str, str]], bypasses: Sequence[Mapping[str, Any]]) -> Content:
    return [
        table(("cache", "lookups"), numbers),
        tag("ul", [tag("li", bypass_in_short(found)) for found in bypasses]) if bypasses else None,
    ]


def ranks(data: Mapping[str, Any]) -> Content:
    """Processes beside each other: what they compiled, and where that differs."""
    names = [r["name"] for r in data["ranks"]]
    counts = ("compiles", "graphs", "breaks")
    rows = [(r["name"], *(f"{r[c]:,}" for c in counts), f"{r['seconds']:.1f}") for r in data["ranks"]]
    parts: list[Content] = [table(("process", "compiled", "graphs", "breaks", "seconds"), rows)]
    if agree := ranks_agree(data):
        parts.append(tag("p", agree, class_="good"))
    if data["unlike"]:
        told = "Not compiled equally often: while one compiles, those that wait for it in a collective wait."
        unlike = [
            (f"{u['source']} in {u['function']}", *(f"{u['compiles'][n]:,}" for n in names)) for u in data["unlike"]
        ]
        parts += [tag("p", told, class_="bad"), table(("function", *names), unlike)]
    for one in data.get("unlike_graphs", ()):
        told = f"Different graphs of {one['function']} ({one['source']}): {ops_by_rank(one)}."
        parts += [tag("p", told, class_="bad"), tag("ul", [tag("li", s) for s in one["differences"]])]
    parts += [tag("p", f"Not compared: {sentence}.", class_="soft") for sentence in data.get("not_compared", ())]
    return parts
