"""The last line of a script that is judged: the referee in the place of the assertion that a reader gets.

check(run, lambda: f, lambda: torch.compile(f), ["out"])
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import told
from torchsleuth.referee.graph import copies
from torchsleuth.referee.referee import Report, Status, referee
from torchsleuth.referee.values import Seen, flatten
from torchsleuth.referee.wrong import NotChecked, WrongNumbers

_MOST = 2000  # wrong values that a verdict lists


class Wrong(WrongNumbers):
    """The verdict on a script, with a line that the tool reads."""

    def __init__(self, report: Report) -> None:
        first = report.wrong[0]
        rows = [{**asdict(d), "nans": report.nans} for d in report.wrong[:_MOST]]
        lines = [f"{first.path}: {first.how}: {first.text}", told.line(rows)]
        super().__init__("\n".join([*lines, *report.notes]), report)


def check(
    run: Callable[[Any], Any],
    eager: Callable[[], Any],
    compiled: Callable[[], Any],
    names: Sequence[str],
    same_kernels: bool = False,
    strides: bool = False,
) -> None:
    """Raises Wrong where compiled code is wrong, NotChecked where nothing could be compared.

    `names` are those of what `run` returns, in order.
    """

    def seen(function: Any) -> list[Seen]:
        values = run(function)
        values = values if len(names) > 1 else (values,)
        return [s for name, value in zip(names, values, strict=True) for s in flatten(value, name)]

    with _loading_through_operators(), torch_api.drawing_in_order():
        report = referee(lambda: seen(eager()), lambda: seen(compiled()), same_kernels=same_kernels, strides=strides)
    if report.wrong:
        raise Wrong(report)
    if report.status is Status.NOTHING_COMPARED:
        unread = ", ".join(map(str, report.not_compared)) or "no value"
        raise NotChecked(f"nothing could be compared with eager: {unread}")


@contextlib.contextmanager
def _loading_through_operators() -> Iterator[None]:
    """Tensors that a script reads from its data file are copied by operators: so the float64 run gets them wide."""
    load = torch.load

    def loaded(*args: Any, **kwargs: Any) -> dict[str, Any]:
        with torch_api.modes_off():
            found = load(*args, **kwargs)
        return dict(zip(found, copies(list(found.values())), strict=True))

    vars(torch)["load"] = loaded
    try:
        yield
    finally:
        vars(torch)["load"] = load
