"""Pictures for the pages, drawn as HTML and SVG: no library, and nothing to fetch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchsleuth.write.markup import Markup, tag

_ROW = 24  # pixels


def icicle(root: Mapping[str, Any]) -> Markup:
    """Boxes as wide as the time they took, what was inside below; a click makes a box as wide as the page."""
    whole = float(root["seconds"]) or 1.0
    boxes = list(_boxes(root, 0.0, 0, whole))
    depth = max(d for _, _, _, d, _ in boxes) + 1
    drawn = [
        tag(
            "button",
            name,
            type="button",
            class_=f"box c{_colour(name)}",
            style=f"left:{x * 100:.3f}%;width:{w * 100:.3f}%;top:{d * _ROW}px",
            title=f"{name}: {seconds:.3f} s ({100 * seconds / whole:.1f} %)",
            data_x=f"{x:.6f}",
            data_w=f"{w:.6f}",
        )
        for name, x, w, d, seconds in boxes
    ]
    return tag("div", drawn, class_="icicle", style=f"height:{depth * _ROW}px")


def _boxes(
    node: Mapping[str, Any], x: float, depth: int, whole: float
) -> Iterator[tuple[str, float, float, int, float]]:
    seconds = float(node["seconds"])
    yield str(node["name"]), x, seconds / whole, depth, seconds
    for child in node["children"]:
        yield from _boxes(child, x, depth + 1, whole)
        x += float(child["seconds"]) / whole


def _colour(name: str) -> int:
    return sum(map(ord, name)) % 8


def bars(parts: Mapping[str, float], unit: str = "s") -> Markup:
    """One bar an entry, all to one scale, with the number beside it."""
    most = max(parts.values(), default=0.0) or 1.0
    rows = [
        tag(
            "div",
            tag("span", name, class_="name"),
            tag("span", tag("span", style=f"width:{100 * value / most:.2f}%"), class_="bar"),
            tag("span", f"{value:.2f} {unit}", class_="value"),
            class_="row",
        )
        for name, value in parts.items()
    ]
    return tag("div", rows, class_="bars")


def curve(points: Sequence[tuple[float, float]], across: str, up: str) -> Markup:
    """A falling staircase: how the number went down as work went on.  The scale upwards is logarithmic."""
    width, height, left, bottom = 640, 220, 46, 34
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = max((y for _, y in points), default=1.0)
    top = math.log10(max(most_y, 1.0) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (width - left - 12) * x / most_x,
            12 + (height - 12 - bottom) * (1 - math.log10(y + 1) / (top or 1.0)),
        )

    path = ""
    for i, (x, y) in enumerate(points):
        px, py = at(x, y)
        path += f"M{px:.1f} {py:.1f}" if i == 0 else f"H{px:.1f}V{py:.1f}"
    marks = []
    for y in sorted({1.0, most_y, *(10.0**k for k in range(1, 6) if 10**k < most_y)}):
        _, py = at(0, y)
        marks += [
            tag("line", x1=left, x2=width - 12, y1=f"{py:.1f}", y2=f"{py:.1f}", class_="grid"),
            tag("text", f"{y:g}", x=left - 6, y=f"{py + 4:.1f}", text_anchor="end"),
        ]
    dots = [
        tag("circle", tag("title", f"{y:g} {up} after {x:g}"), cx=f"{at(x, y)[0]:.1f}", cy=f"{at(x, y)[1]:.1f}", r=3.5)
        for x, y in points
    ]
    labels = [
        tag("text", across, x=width - 12, y=height - 8, text_anchor="end"),
        tag("text", "0", x=left, y=height - 8),
        tag("text", f"{most_x:g}", x=at(most_x, 0)[0], y=height - 22, text_anchor="end"),
    ]
    return tag(
        "svg", marks, tag("path", d=path, class_="stair"), dots, labels,
        viewBox=f"0 0 {width} {height}", role="img", aria_label=f"{up} by {across}", class_="chart",
    )  # fmt: skip


def graph(nodes: Sequence[tuple[str, str, Sequence[str]]], marked: str | None = None) -> Markup:
    """Boxes and arrows, inputs on top.  `nodes` are (name, label, names it reads), each after what it reads."""
    layer: dict[str, int] = {}
    for name, _, reads in nodes:
        layer[name] = 1 + max((layer[r] for r in reads if r in layer), default=-1)
    rows: dict[int, list[str]] = {}
    for name, _, _ in nodes:
        rows.setdefault(layer[name], []).append(name)
    widest = max((len(r) for r in rows.values()), default=1)
    wide, high, gap = 190, 36, 26
    width = widest * (wide + gap)
    place = {
        name: ((width - len(row) * (wide + gap)) / 2 + i * (wide + gap) + gap / 2, number * (high + gap) + 4)
        for number, row in rows.items()
        for i, name in enumerate(row)
    }
    drawn = [
        _arrow(place[read], place[name], wide, high, gap) for name, _, reads in nodes for read in _each(reads, place)
    ]
    drawn += [_node(name, label, bool(reads), place[name], wide, high, marked) for name, label, reads in nodes]
    height = (max(rows, default=0) + 1) * (high + gap)
    view = f"0 0 {width} {height}"
    picture = tag("svg", drawn, viewBox=view, width=width, height=height, role="img", aria_label="the graph")
    return tag("div", picture, class_="wide graph")


def _each(reads: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(r for r in reads if r in known))


def _arrow(start: tuple[float, float], end: tuple[float, float], wide: int, high: int, gap: int) -> Markup:
    (fx, fy), (x, y) = start, end
    middle, down = fx + wide / 2, fy + high
    across = x + wide / 2
    d = f"M{middle:.0f} {down}C{middle:.0f} {down + gap} {across:.0f} {y - gap} {across:.0f} {y}"
    return tag("path", d=d, class_="edge")


def _node(
    name: str, label: str, reads: bool, at: tuple[float, float], wide: int, high: int, marked: str | None
) -> Markup:
    x, y = at
    kind = "node marked" if marked and marked in label else "node" if reads or "(" in label else "node input"
    short = label if len(label) <= 26 else label[:24] + "…"
    box = tag("rect", x=x, y=y, width=wide, height=high, rx=6)
    text = tag("text", short, x=x + wide / 2, y=y + high / 2 + 4, text_anchor="middle")
    return tag("g", tag("title", f"{name}: {label}"), box, text, class_=kind)
