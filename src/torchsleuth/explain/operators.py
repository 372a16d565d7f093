"""The operators of a graph that Dynamo captured, read from the graph as torch prints it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\(")
_SYMBOL = re.compile(r"^\S+ (\S+) \S+$")


@dataclass(frozen=True)
class Operators:
    """How often each operator is called; `order` is a digest that two graphs share if they call them in one order."""

    counts: tuple[tuple[str, int], ...]
    order: str

    @property
    def number(self) -> int:
        return sum(count for _, count in self.counts)


def operators_of(graph: str) -> Operators:
    names = list(_names(graph))
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return Operators(tuple(sorted(Counter(names).items())), digest)


def _names(graph: str) -> Iterator[str]:
    """One name a call: assignments, less those that only name an input or a weight."""
    for line in graph.splitlines():
        name, equals, value = line.strip().partition(" = ")
        if not equals or name.startswith(("#", "def ", "class ")):
            continue
        plain = value.split(";")[0].strip()
        if "(" in plain or (": " in name and not plain.startswith("self.")):
            yield _name(plain)


def _name(call: str) -> str:
    """`torch.relu` of `torch.relu(x)`, `.sum` of `x.sum()`, `+` of `x + 1`."""
    found = _CALLED.match(call)
    if found is None:
        symbol = _SYMBOL.match(call)
        return symbol[1] if symbol else "[]" if "[" in call else call
    name = found[1]
    first, dot, last = name.rpartition(".")
    return name if not dot or first.split(".")[0] in ("torch", "self", "operator") else f".{last}"
