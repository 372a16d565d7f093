"""The steps of a compilation as torch times them, and the instructions that Dynamo traces, as they happen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def on_steps(begins: Callable[[str], None], ends: Callable[[str], None]) -> None:
    """Called by name for each step that torch times; never undone."""
    from torch._dynamo import utils

    logger = utils.ChromiumEventLogger
    began, ended = logger.log_event_start, logger.log_event_end

    @functools.wraps(began)
    def start(self: Any, event_name: str, *args: Any, **kwargs: Any) -> None:
        begins(event_name)
        began(self, event_name, *args, **kwargs)

    @functools.wraps(ended)
    def end(self: Any, event_name: str, *args: Any, **kwargs: Any) -> None:
        ended(self, event_name, *args, **kwargs)
        ends(event_name)

    logger.log_event_start = start  # type: ignore[method-assign]
    logger.log_event_end = end  # type: ignore[method-assign]


def on_instructions(sees: Callable[[str, int, str], None]) -> None:
    """Called with file, line and text for each instruction before Dynamo traces it; never undone."""
    from torch._dynamo import symbolic_convert

    translator = symbolic_convert.InstructionTranslatorBase
    stepped = translator.step

    @functools.wraps(stepped)
    def step(self: Any) -> bool:
        place = self.instruction_pointer
        if place is not None:
            now = self.instructions[place]
            argument = "" if now.arg is None else f" {now.argval!r}"
            line = now.positions.lineno if now.positions is not None else self.lineno
            sees(self.f_code.co_filename, line or 0, f"{now.opname}{argument}")
        return bool(stepped(self))

    translator.step = step  # type: ignore[method-assign]
