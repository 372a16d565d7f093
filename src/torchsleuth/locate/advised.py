"""Settings that an error of torch's own advises: `... or set torch._functorch.config.donated_buffer=False to ...`."""

from __future__ import annotations

import re

_NAME = r"torch\.(?:_\w+|fx\.experimental|compiler)\._?config\.[A-Za-z_][\w.]*"
_SETTING = re.compile(rf"\b({_NAME})\s*=\s*(True|False|\d+)\b")
# These hide a failure, or make it a graph break; they mend nothing.
_HIDES = ("suppress_errors", "disable", "verbose", "fail_on_recompile_limit_hit")


def settings(text: str) -> dict[str, bool | int]:
    """By their full names, in the order in which they are advised."""
    found: dict[str, bool | int] = {}
    for name, value in _SETTING.findall(text):
        if not name.endswith(_HIDES):
            found[name] = value == "True" if value in ("True", "False") else int(value)
    return found
