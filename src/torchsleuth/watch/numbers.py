"""Compiled graphs compared with eager while the program runs, with its own inputs, none of which is touched."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torchsleuth.case.failure import Failure, Phase, wrong_numbers
from torchsleuth.case.program.names import short_name
from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.referee import Report
from torchsleuth.referee.verdict import Difference
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
    report = named(check_graph(record.eager.forward, compiled, inputs, backward=wanted), record)
    schedule.looked(record.number, time.perf_counter() - began, wrong=bool(report.wrong))
    return report


def named(report: Report, record: Record) -> Report:
    """With the program's own names: x for inputs[0]."""
    pairs = zip(record.sketch.graph.placeholders, record.sketch.inputs, strict=True)
    names = [short_name(getattr(value, "source", ""), node.name) for node, value in pairs]

    def plain(difference: Difference) -> Difference:
        found = re.match(r"inputs\[(\d+)\]", difference.path)
        rest = difference.path[found.end() :] if found else ""
        return replace(difference, path=names[int(found.group(1))] + rest) if found else difference

    return replace(report, wrong=tuple(map(plain, report.wrong)), excused=tuple(map(plain, report.excused)))


def failure_of(report: Report) -> Failure:
    forward = [d for d in report.wrong if not d.path.endswith(".grad")]
    first = (forward or list(report.wrong))[0]
    lines = [f"{d.path}: {d.how}: {d.text}" for d in report.wrong]
    phase = Phase.RUN_FORWARD if forward else Phase.RUN_BACKWARD
    kinds = [d.how for d in (forward or report.wrong)]
    how = next((k for k in ("type", "shape", "dtype", "nan") if k in kinds), "values")
    return wrong_numbers(how, phase, "\n".join([*lines, *report.notes]), f"{first.path} is wrong: {first.text}")
