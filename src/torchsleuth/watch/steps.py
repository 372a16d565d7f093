"""The step log: what the compiler begins and ends, written down in the program, read by the tool while it runs.

The last step that began and did not end says what a process was doing when it died.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.session import Outbox

NAME = "steps.jsonl"
_SHORT = 0.05  # seconds; a step without inner steps that takes no longer, and does not fail, has no line for its end

_COMPONENTS = (
    ("dynamo", ("dynamo", "entire_frame_compile", "compile_attempt", "bytecode_tracing", "build_guards", "gc")),
    ("aot", ("create_aot", "aot_", "backward_compile", "entire_backward")),
    ("partitioner", ("min_cut", "default_partition")),
    (
        "inductor",
        (
            "inductor", "compile_fx", "fx_codegen", "pass.", "_recursive_", "GraphLowering", "Scheduler", "code_gen",
            "PythonWrapper", "PyCodeCache", "async_compile", "compile_file", "TritonBundler", "additional_fake",
        ),
    ),
)  # fmt: skip


def component_of(step: str) -> str:
    """The part of the compiler that a step of torch's belongs to."""
    return next((name for name, starts in _COMPONENTS if step.startswith(starts)), "backend")


class Writer:
    """In the program: a line for each step, in one write each."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._began = time.monotonic()
        self._local = threading.local()

    @property
    def _handled(self) -> dict[str, list[int]]:
        """The exception that was being handled when each open step of this thread began, by identity."""
        found: dict[str, list[int]] = self._local.__dict__.setdefault("handled", {})
        return found

    @guarded
    def begins(self, step: str) -> None:
        self._handled.setdefault(step, []).append(id(sys.exc_info()[1]))
        self._write({"begins": step})

    @guarded
    def ends(self, step: str) -> None:
        """Called while the exception that ends the step is on its way out, if one does."""
        from torchsleuth import torch_api

        error = sys.exc_info()[1]
        before = self._handled.get(step) or [id(None)]
        is_new = error is not None and id(error) != before.pop()
        failed = is_new and error is not None and not torch_api.is_control_flow(error)
        self._write({"ends": step, **({"error": type(error).__name__} if failed else {})})

    @guarded
    def frame(self, place: str) -> None:
        self._write({"frame": place})

    @guarded
    def instruction(self, file: str, line: int, text: str) -> None:
        self._write({"instruction": f"{file}:{line}: {text}"})

    def _write(self, row: dict[str, Any]) -> None:
        from torchsleuth import torch_api

        row |= {
            "at": round(time.monotonic() - self._began, 4),
            "thread": threading.get_ident(),
            "id": torch_api.compile_id(),
        }
        handle = os.open(self._outbox.here().folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, (json.dumps(row) + "\n").encode())
        finally:
            os.close(handle)


def install(outbox: Outbox, wanted: str) -> Writer | None:
    if not wanted:
        return None
    from torchsleuth.torch_api import steps
    from torchsleuth.watch import attach

    writer = Writer(outbox)
    attach.now(functools.partial(steps.on_steps, writer.begins, writer.ends))
    if wanted == "debug":
        attach.now(functools.partial(steps.on_instructions, writer.instruction))
    return writer


@dataclass
class _Open:
    step: str
    at: float
    inner: bool = False  # it has steps of its own


@dataclass
class _Read:
    """One process's log, as far as it was read."""

    offset: int = 0
    open: dict[int, list[_Open]] = field(default_factory=dict)  # by thread
    frame: dict[int, str] = field(default_factory=dict)  # that Dynamo looks at, by thread


class Follower:
    """The tool's side: new lines since it last looked, as text."""

    def __init__(self, session: Path, say: Callable[[str], None]) -> None:
        self._session = session
        self._say = say
        self._read: dict[Path, _Read] = {}

    def look(self) -> None:
        for path in sorted(self._session.glob(f"processes/*/{NAME}")):
            known = self._read.setdefault(path, _Read())
            with path.open("rb") as file:
                file.seek(known.offset)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            known.offset += len(whole)
            who = path.parent.name.partition("-")[0] if len(self._read) > 1 else ""
            for line in _lines(known, whole):
                self._say(f"{who + ' ' if who else ''}{line}")

    def unfinished(self) -> str | None:
        """The innermost step that began and did not end."""
        found = [one[-1] for known in self._read.values() for one in known.open.values() if one]
        return max(found, key=lambda one: one.at).step if found else None


def _lines(known: _Read, text: bytes) -> Iterator[str]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield from _line(known, row)


def _line(known: _Read, row: dict[str, Any]) -> Iterator[str]:
    at, stack = float(row["at"]), known.open.setdefault(int(row["thread"]), [])
    head = f"{at:9.3f}s {'[' + row['id'] + ']' if row.get('id') else '':6} {'  ' * len(stack)}"
    if "frame" in row:
        known.frame[int(row["thread"])] = str(row["frame"])  # most are skipped, and never compiled
    elif "instruction" in row:
        yield f"{head}{row['instruction']}"
    elif "begins" in row:
        step = str(row["begins"])
        if stack:
            stack[-1].inner = True
        of = known.frame.pop(int(row["thread"]), "") if step == "dynamo" else ""
        stack.append(_Open(step, at))
        yield f"{head}{component_of(step)}: {step}{' of ' + of if of else ''}"
    elif any(one.step == row["ends"] for one in stack):
        error = str(row.get("error", ""))
        while stack[-1].step != row["ends"]:
            yield from _ended(stack, row, error or "an exception")  # which torch did not time the end of
        yield from _ended(stack, row, error)


def _ended(stack: list[_Open], row: dict[str, Any], error: str) -> Iterator[str]:
    """The innermost open step is over: a line that names the error it failed with, if it did."""
    at, one = float(row["at"]), stack.pop()
    head = f"{at:9.3f}s {'[' + row['id'] + ']' if row.get('id') else '':6} {'  ' * len(stack)}"
    if error:
        yield f"{head}{one.step} failed: {error} after {at - one.at:.3f} s"
    elif one.inner or at - one.at >= _SHORT:
        yield f"{head}{one.step} ended after {at - one.at:.3f} s"
