"""The last line of a script that is judged: the referee in the place of the assertion that a reader gets.

check(run, lambda: f, torch.compile)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee.graph import copies
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.values import Seen, flatten

MARK = "torchsleuth-referee: "


class Wrong(AssertionError):
    """Compiled code gives wrong numbers; the report says which."""

    def __init__(self, report: Report) -> None:
        self.report = report
        first = report.wrong[0]
        told = {
            "how": report.how,
            "size": report.size,
            "wrong": [asdict(d) for d in report.wrong[:1000]],
            "notes": report.notes,
        }
        super().__init__(f"{first.path}: {first.how}: {first.text}\n{MARK}{json.dumps(told)}")


def check(
    run: Callable[[Any], Any], make: Callable[[], Any], compile: Callable[[Any], Any], names: Sequence[str]
) -> None:
    """Raises Wrong where compiled code is wrong.  `names` are those of what `run` returns, in order."""

    def seen(function: Any) -> list[Seen]:
        values = run(function)
        values = values if len(names) > 1 else (values,)
        return [s for name, value in zip(names, values, strict=True) for s in flatten(value, name)]

    with _loading_through_operators():
        report = referee(lambda: seen(make()), lambda: seen(compile(make())))
    if report.wrong:
        raise Wrong(report)


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
