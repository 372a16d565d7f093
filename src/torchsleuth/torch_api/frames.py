"""The frame that Dynamo compiles, and the modules that are being called around it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch


def compiled_locals() -> Mapping[str, Any]:
    """Locals of the frame whose graph is being handed to a backend; none where no frame is."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        return dict(InstructionTranslator.current_tx().f_locals)
    except AttributeError:  # it is kept only while a frame is translated
        return {}


def calling_modules() -> list[torch.nn.Module]:
    """Modules whose calls are under way in eager Python, innermost first."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is torch.nn.Module._call_impl.__code__:
            found.append(frame.f_locals["self"])
        frame = frame.f_back  # type: ignore[assignment]
    return found
