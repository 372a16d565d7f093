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
from typing import Any

import torch

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import DRAW_IN_ORDER, DRAW_LIKE_EAGER, PlaceMissing


def draw_like_eager() -> None:
    """Draw the numbers of eager; `draw_in_order` keeps their order."""
    attaching.put(DRAW_LIKE_EAGER, True)


def draw_in_order() -> Callable[[], None]:
    """Let each operator that draws wait for the one before it; gives a function that undoes this."""
    return attaching.replace(DRAW_IN_ORDER, _updating)


def _updating(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def update_scheduler(self: Any) -> Any:
        with contextlib.suppress(Exception):  # inside the user's compilation: better in any order than not at all
            _one_after_another(self)
        return original(self)

    return update_scheduler


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
    try:
        undo = draw_in_order()
    except PlaceMissing:  # in any order, then
        yield
        return
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def drawing_like_eager() -> Iterator[None]:
    with drawing_in_order(), importlib.import_module("torch._inductor.config").patch(fallback_random=True):
        yield
