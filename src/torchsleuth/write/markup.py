"""HTML from Python: tags that escape what they hold, and the frame of every page.

A page is one file: styles and script stand in it, and its policy forbids it to fetch anything.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib import resources


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Markup | Iterable["Content"] | None


def render(content: Content) -> Markup:
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content))
    return Markup("".join(render(each) for each in content))


def tag(name: str, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """`tag("a", "text", href="x")`; `class_` and `for_` lose their underscore, `data_x` becomes data-x."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        plain = key.rstrip("_").replace("_", "-")
        words.append(plain if value is True else f'{plain}="{html.escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    if name in ("input", "br", "hr", "meta"):
        return Markup(opening)
    return Markup(f"{opening}{render(content)}</{name}>")


def asset(name: str) -> str:
    return resources.files("torchsleuth.write").joinpath("assets", name).read_text(encoding="utf-8")


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, subtitle: str, sections: Iterable[tuple[str, str, Content]]) -> str:
    """`sections` are (id, heading, content); a content that is None leaves its section out."""
    shown = [(name, heading, render(content)) for name, heading, content in sections if content is not None]
    menu = tag("nav", [tag("a", heading, href=f"#{name}") for name, heading, _ in shown], aria_label="sections")
    switch = tag("button", "Dark / light", id="theme", type="button", title="switch the colours")
    head = tag("header", tag("div", tag("h1", title), switch, class_="top"), tag("p", subtitle, class_="sub"), menu)
    body = [tag("section", tag("h2", heading), content, id=name) for name, heading, content in shown]
    return (
        "<!doctype html>\n"
        + tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
                tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
                tag("title", f"{title}: {subtitle}"[:120]),
                tag("style", Markup(asset("report.css"))),
            ),
            tag("body", head, tag("main", body), tag("script", Markup(asset("report.js")))),
            lang="en",
        )
        + "\n"
    )


def copyable(text: str, label: str = "Copy") -> Markup:
    """Text with a button that copies it."""
    return tag(
        "div",
        tag("button", label, class_="copy", type="button", aria_label="copy this text"),
        tag("pre", tag("code", text)),
        class_="copyable",
    )


def table(columns: Iterable[str], rows: Iterable[Iterable[Content]], **attributes: str) -> Markup:
    """Columns that begin with `#` hold numbers."""
    names = list(columns)
    kinds = ["num" if name.startswith("#") else None for name in names]
    head = tag("tr", [tag("th", name.lstrip("#"), class_=kind) for name, kind in zip(names, kinds, strict=True)])
    body = [tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)]) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", body), **attributes), class_="wide")


def tiles(facts: Iterable[tuple[str, str]]) -> Markup:
    return tag(
        "div", [tag("div", tag("b", value), tag("span", name), class_="tile") for name, value in facts], class_="tiles"
    )


def code_lines(lines: Iterable[tuple[int, str]], marked: int) -> Markup:
    """The user's own lines, the one that matters marked."""
    rows = [
        tag("span", tag("i", str(number)), text or " ", class_="line marked" if number == marked else "line")
        for number, text in lines
    ]
    return tag("pre", rows, class_="source")


def words(meanings: Iterable[tuple[str, str]]) -> Markup:
    return tag("dl", [[tag("dt", word), tag("dd", meaning)] for word, meaning in meanings])
