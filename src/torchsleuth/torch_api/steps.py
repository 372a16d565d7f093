"""The steps of a compilation as torch times them, and the instructions that Dynamo traces, as they happen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import INSTRUCTIONS, STEP_BEGINS, STEP_ENDS


def on_steps(begins: Callable[[str], None], ends: Callable[[str], None]) -> None:
    """Call `begins` and `ends` with the name of each step that torch times; never undone."""

    def starting(began: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(began)
        def start(self: Any, event_name: str, *args: Any, **kwargs: Any) -> None:
            begins(event_name)
            began(self, event_name, *args, **kwargs)

        return start

    def ending(ended: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(ended)
        def end(self: Any, event_name: str, *args: Any, **kwargs: Any) -> None:
            ended(self, event_name, *args, **kwargs)
            ends(event_name)

        return end

    attaching.replace(STEP_BEGINS, starting)
    attaching.replace(STEP_ENDS, ending)


def on_instructions(sees: Callable[[str, int, str], None]) -> None:
    """Call `sees` with file, line and text of each instruction before Dynamo traces it; never undone."""

    def stepping(stepped: Callable[[Any], bool]) -> Callable[[Any], bool]:
        @functools.wraps(stepped)
        def step(self: Any) -> bool:
            place = self.instruction_pointer
            if place is not None:
                now = self.instructions[place]
                argument = "" if now.arg is None else f" {now.argval!r}"
                line = now.positions.lineno if now.positions is not None else self.lineno
                sees(self.f_code.co_filename, line or 0, f"{now.opname}{argument}")
            return bool(stepped(self))

        return step

    attaching.replace(INSTRUCTIONS, stepping)
