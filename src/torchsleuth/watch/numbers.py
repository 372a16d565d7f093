"""Compiled graphs compared with eager while the program runs: its own calls, with its own inputs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torchsleuth.case.failure import Failure, Phase, wrong_numbers
from torchsleuth.case.program.names import short_name
from torchsleuth.referee.graph import Before, check_call, check_graph
from torchsleuth.referee.referee import Report
from torchsleuth.referee.verdict import Difference
from torchsleuth.watch.capture import Record
from torchsleuth.watch.free_memory import room_to_compare
from torchsleuth.watch.schedule import Schedule

_KINDS = ("type", "shape", "dtype", "device")


def before(schedule: Schedule, record: Record, inputs: Sequence[Any], too_large: Callable[[], None]) -> Before | None:
    """What a call that is to be compared will be given; None: it is not looked at."""
    if record.eager is None or not schedule.due(record.number, record.calls):
        return None
    if not room_to_compare(inputs):
        too_large()
        return None
    return Before.of(inputs)


def look(
    schedule: Schedule,
    record: Record,
    compiled: Callable[..., Any],
    given: Before,
    outputs: Any,
    inputs: Sequence[Any],
    *,
    wanted: str,
) -> tuple[Report, bool]:
    """What the referee says of a call that the program made, and whether of a backward, by a call of its own."""
    assert record.eager is not None
    began = time.perf_counter()
    eager = record.eager.forward
    same = record.sketch.surroundings.backend.runs_eagers_kernels
    report = check_call(eager, given, outputs, inputs, same_kernels=same, strides=wanted == "strides")
    if wanted == "kinds":
        report = replace(report, wrong=tuple(d for d in report.wrong if d.how in _KINDS), excused=())
    asks = any(getattr(v, "requires_grad", False) for v in given.inputs)
    backward = wanted == "backward" and record.sketch.surroundings.grad and asks and not report.wrong
    if backward:
        report = check_graph(eager, compiled, given.inputs, backward=True, same_kernels=same)
    schedule.looked(record.number, time.perf_counter() - began, wrong=bool(report.wrong))
    return named(report, record), backward


def named(report: Report, record: Record) -> Report:
    """With the program's own names: x for inputs[0]."""
    pairs = zip(record.sketch.graph.placeholders, record.sketch.inputs, strict=True)
    names = [short_name(getattr(value, "source", ""), node.name) for node, value in pairs]

    def plain(difference: Difference) -> Difference:
        found = re.match(r"inputs\[(\d+)\]", difference.path)
        rest = difference.path[found.end() :] if found else ""
        return replace(difference, path=names[int(found.group(1))] + rest) if found else difference

    return replace(report, wrong=tuple(map(plain, report.wrong)), excused=tuple(map(plain, report.excused)))


def failure_of(report: Report, *, backward: bool) -> Failure:
    """`backward`: the forward alone was right, so that what is wrong in results or inputs, too, came with it."""
    forward = [d for d in report.wrong if not d.path.endswith(".grad")]
    first = (forward or list(report.wrong))[0]
    lines = [f"{d.path}: {d.how}: {d.text}" for d in report.wrong]
    phase = Phase.RUN_BACKWARD if backward else Phase.RUN_FORWARD
    kinds = [d.how for d in (forward or report.wrong)]
    how = next((k for k in (*_KINDS, "nan", "stride") if k in kinds), "values")
    return wrong_numbers(how, phase, "\n".join([*lines, *report.notes]), f"{first.path} is wrong: {first.text}")
