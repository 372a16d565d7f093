"""Places of torch that hooks did not find: written to the session's log by the program, read there by the tool."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder

from torchsleuth.watch import guarded

_MARK = "missing hook: "
_LINE = re.compile(rf"^\[\d+\] {re.escape(_MARK)}(.*)\n?", re.M)


def report(message: str) -> None:
    """Write that a hook is missing to the log of the session."""
    guarded.complain(_MARK + message.replace("\n", " "))


def messages(trouble: str) -> tuple[str, ...]:
    """Each missing hook in the text of the log, once."""
    return tuple(dict.fromkeys(_LINE.findall(trouble)))


def other_trouble(trouble: str) -> str:
    """The text of the log without missing hooks."""
    return _LINE.sub("", trouble).strip()


def has_module(name: str) -> bool:
    """Whether a module is imported, or could be, by this name; imports nothing."""
    path = None
    words = name.split(".")
    for count in range(1, len(words) + 1):
        package = ".".join(words[:count])
        if package in sys.modules:
            path = getattr(sys.modules[package], "__path__", [])
            continue
        spec = PathFinder.find_spec(package, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations or []
    return True
