"""Why torch.compile compiled nothing, and what to do about it, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchsleuth import torch_api

_UNTIL_COMPILED = "Check a function that calls torch operators on tensors and that torch.compile can trace."


def why_not(model: Any, options: Mapping[str, Any], watch: torch_api.CompileWatch) -> str:
    if setting := torch_api.why_compilation_is_off(model, options):
        return f"{setting}. Remove it and check again."
    if watch.suppressed:
        return (
            f"compiling failed ({watch.suppressed[0]}), and with torch._dynamo.config.suppress_errors the function ran "
            "in eager. Set suppress_errors to False to see the error."
        )
    if watch.breaks:
        return f"Dynamo broke the graph before any operator ({_first_line(watch.breaks[0])}). {_UNTIL_COMPILED}"
    if not watch.frames:
        return (
            "Dynamo saw no frame of it: its code may be marked with torch.compiler.disable, or belong to a module that "
            f"Dynamo skips. {_UNTIL_COMPILED}"
        )
    return f"Dynamo captured no operator. {_UNTIL_COMPILED}"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]
