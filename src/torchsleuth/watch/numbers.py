"""Compiled graphs compared with eager while the program runs, with its own inputs, none of which is touched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torchsleuth.case.failure import Failure, Phase, wrong_numbers
from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.referee import Report
from torchsleuth.watch.capture import Record
from torchsleuth.watch.schedule import Schedule


def look(
    schedule: Schedule, record: Record, compiled: Callable[..., Any], inputs: Sequence[Any], *, backward: bool
) -> Report | None:
    """What the referee says of this call, made on copies before the program makes it; None: not looked at."""
    if record.eager is None or not schedule.due(record.number, record.calls):
        return None
    began = time.perf_counter()
    wanted = backward and record.sketch.surroundings.grad
    report = check_graph(record.eager.forward, compiled, inputs, backward=wanted)
    schedule.looked(record.number, time.perf_counter() - began, wrong=bool(report.wrong))
    return report


def failure_of(report: Report) -> Failure:
    forward = [d for d in report.wrong if not d.path.endswith(".grad")]
    first = (forward or list(report.wrong))[0]
    lines = [f"{d.path}: {d.how}: {d.text}" for d in report.wrong]
    phase = Phase.RUN_FORWARD if forward else Phase.RUN_BACKWARD
    kinds = [d.how for d in (forward or report.wrong)]
    how = next((k for k in ("type", "shape", "dtype", "nan") if k in kinds), "values")
    return wrong_numbers(how, phase, "\n".join([*lines, *report.notes]), f"{first.path} is wrong: {first.text}")
