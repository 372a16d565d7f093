"""Compiled code that draws the random numbers that eager draws, in the same order.

`fallback_random` alone is not enough: to save memory, Inductor's scheduler moves an operator that draws before another
one as soon as its inputs are there, and each gets the numbers that were meant for the other.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch


def draw_like_eager() -> None:
    """The numbers; `draw_in_order` keeps their order."""
    vars(importlib.import_module("torch._inductor"))["config"].fallback_random = True


def draw_in_order(graph: ModuleType) -> Callable[[], None]:
    """Given torch._inductor.graph: each operator that draws waits for the one before it.  Returns what undoes this."""
    holder = graph.GraphLowering
    original = getattr(holder, "_update_scheduler", None)
    if original is None:
        return lambda: None

    @functools.wraps(original)
    def update_scheduler(self: Any) -> Any:
        with contextlib.suppress(Exception):  # inside the user's compilation: better in any order than not at all
            _one_after_another(self)
        return original(self)

    holder._update_scheduler = update_scheduler
    return lambda: setattr(holder, "_update_scheduler", original)


def _one_after_another(lowered: Any) -> None:
    waits = getattr(lowered, "additional_buffer_deps", None)
    draws = [o for o in lowered.operations if torch.Tag.nondeterministic_seeded in _tags(o)]
    if waits is not None:
        for before, after in itertools.pairwise(draws):
            waits[after.get_operation_name()].add(before.get_name())


def _tags(operation: Any) -> list[torch.Tag]:
    return getattr(getattr(operation, "op_overload", None), "tags", [])


@contextlib.contextmanager
def drawing_in_order() -> Iterator[None]:
    undo = draw_in_order(importlib.import_module("torch._inductor.graph"))
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def drawing_like_eager() -> Iterator[None]:
    with drawing_in_order(), importlib.import_module("torch._inductor.config").patch(fallback_random=True):
        yield
