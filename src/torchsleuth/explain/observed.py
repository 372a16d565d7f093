"""Which breaks and recompilations a script had, read from torch's messages or from the error that it ended with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.explain.break_text import parse_break
from torchsleuth.explain.guard_failures import parse_reason
from torchsleuth.explain.reasons import meaning
from torchsleuth.explain.recorder import BREAKS, RECOMPILES

_GUARD = re.compile(r"^\s*- (\d+/\d+: .*)$", re.MULTILINE)
_UNSUPPORTED = re.compile(r"^(?:torch\._dynamo\.exc\.)?Unsupported: ", re.MULTILINE)


@dataclass(frozen=True)
class Observed:
    """Breaks by the reason that we give them, recompilations by what of their guard stays when only values differ."""

    breaks: frozenset[str] = frozenset()
    recompiles: frozenset[str] = frozenset()


def recorded(record: Path) -> Observed:
    if not record.exists():
        return Observed()
    said = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return Observed(
        frozenset(reason for name, text in said if name == BREAKS and (reason := break_reason(text))),
        frozenset(key for name, text in said if name == RECOMPILES for key in guard_keys(text)),
    )


def raised(error: str) -> Observed:
    """From the text of an error: fullgraph=True and error_on_recompile=True make errors of them."""
    found = _UNSUPPORTED.search(error)
    if found is not None:
        return Observed(breaks=frozenset({break_reason(f"Graph Break Reason: {error[found.end() :]}")}))
    return Observed(recompiles=frozenset(guard_keys(error))) if "RecompileError" in error else Observed()


def break_reason(text: str) -> str:
    return meaning(parse_break(text)).reason


def guard_key(cause: str) -> str:
    """Of a recompilation's cause as it is told."""
    return parse_reason(f"0/0: {cause}").key


def guard_keys(text: str) -> Iterable[str]:
    return (parse_reason(entry).key for entry in _GUARD.findall(text))
