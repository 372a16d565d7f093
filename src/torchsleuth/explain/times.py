"""Where compile time went: by phase, by step, by function; the picture's data; a file that Perfetto opens.

The trace tells when each step begins and ends.  Seconds are of the step alone, without those inside it, so that the
parts add up to the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from torchsleuth.explain.records import Record

# The first entry that a step's name contains says which it is.
_STEPS = (
    ("autotun", "autotune"), ("benchmark", "autotune"),
    ("compile_file", "kernel compile"), ("async_compile", "kernel compile"), ("triton", "kernel compile"),
    ("cpp", "kernel compile"), ("load_by_key_path", "kernel compile"), ("compile_threads", "kernel compile"),
    ("cache", "caches"), ("TritonBundler", "caches"),
    ("pre_grad", "passes"), ("joint", "passes"), ("post_grad", "passes"), ("passes", "passes"),
    ("pass", "passes"), ("remat", "passes"), ("fx_codegen", "code generation"), ("GraphLowering.run", "lowering"),
    ("lowering", "lowering"), ("Scheduler", "scheduling"), ("fuse", "scheduling"), ("codegen", "code generation"),
    ("code_gen", "code generation"), ("compile_to_fn", "code generation"), ("compile_to_module", "code generation"),
    ("partition", "AOTAutograd"), ("aot", "AOTAutograd"), ("functional", "AOTAutograd"),
    ("backend_compile", "AOTAutograd"), ("trace_joint", "AOTAutograd"),
    ("inductor", "Inductor, other"), ("compile_fx", "Inductor, other"),
    ("guards", "guards"), ("gc", "Dynamo"), ("dynamo", "Dynamo"),
)  # fmt: skip
STEP_ORDER = (
    "Dynamo", "guards", "AOTAutograd", "passes", "lowering", "scheduling", "code generation", "kernel compile",
    "autotune", "caches", "Inductor, other",
)  # fmt: skip


_PHASE = {"Dynamo": "dynamo", "guards": "dynamo", "AOTAutograd": "aot", "caches": "aot"}


def phase_of(step: str) -> str:
    return _PHASE.get(step, "inductor")


def step_of(name: str) -> str:
    return next((step for part, step in _STEPS if part.lower() in name.lower()), "Dynamo")


@dataclass
class _Open:
    name: str
    since: float
    inside: float = 0.0


@dataclass
class Clock:
    """Adds up events as they come; what it holds does not grow with the length of the program."""

    steps: dict[str, float] = field(default_factory=dict)  # seconds alone
    paths: dict[tuple[str, ...], float] = field(default_factory=dict)  # (function, event, event...): seconds alone
    phases: dict[str, dict[str, float]] = field(default_factory=dict)  # by compilation
    _stacks: dict[tuple[str, str], list[_Open]] = field(default_factory=dict)

    def take(self, record: Record, compilation: str, function: str = "") -> dict[str, Any] | None:
        """The event, when `record` is one; its time goes to `compilation`, and in the picture to `function`."""
        if record.kind != "chromium_event":
            return None
        try:
            event = json.loads(record.payload)
            phase, now, name = event["ph"], float(event.get("ts") or 0), str(event.get("name", ""))
        except (ValueError, KeyError, TypeError):
            return None
        if not record.compile_id:
            return event  # type: ignore[no-any-return]  # a helper thread's: whoever waits for it counts the time
        stack = self._stacks.setdefault((record.process, record.compile_id), [])
        if phase == "B":
            stack.append(_Open(name, now))
        elif phase == "E" and any(each.name == name for each in stack):
            while stack:
                path = tuple(each.name for each in stack)
                done = stack.pop()
                whole = now - done.since
                self._add(compilation, function, path, max(0.0, whole - done.inside) / 1e6)
                if stack:
                    stack[-1].inside += whole
                if done.name == name:
                    break
        return event  # type: ignore[no-any-return]

    def _add(self, compilation: str, function: str, path: tuple[str, ...], seconds: float) -> None:
        step = step_of(path[-1])
        self.steps[step] = self.steps.get(step, 0.0) + seconds
        key = (function, *path)
        self.paths[key] = self.paths.get(key, 0.0) + seconds
        phases = self.phases.setdefault(compilation, {})
        phases[phase_of(step)] = phases.get(phase_of(step), 0.0) + seconds


class Perfetto:
    """Writes the events, as they come, as one file for Perfetto or chrome://tracing."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._numbers: dict[str, int] = {}
        self._first = True
        file.write('{"traceEvents": [')

    def take(self, record: Record, event: dict[str, Any]) -> None:
        number = self._numbers.get(record.process)
        if number is None:
            number = self._numbers[record.process] = len(self._numbers) + 1
            self._write(
                {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"process {record.process}"}}
            )
        arguments = {
            k: v for k, v in (event.get("args") or {}).items() if isinstance(v, (str, int, float)) and len(str(v)) < 200
        }
        self._write({**event, "pid": number, "args": arguments})

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write("\n" if self._first else ",\n")
        self._first = False
        json.dump(event, self._file)

    def close(self) -> None:
        self._file.write("\n]}\n")


@dataclass(frozen=True)
class Slice:
    """One box of the picture."""

    name: str
    seconds: float
    children: tuple[Slice, ...]


def tree(clock: Clock) -> Slice:
    """All of the compile time: by function, then by step inside step."""
    root: dict[str, Any] = {"own": 0.0, "inside": {}}
    for (function, *path), seconds in clock.paths.items():
        here = root
        for name in (function or "before a frame was known", *path):
            here = here["inside"].setdefault(name, {"own": 0.0, "inside": {}})
        here["own"] += seconds
    return _slice("compile time", root)


def _slice(name: str, node: dict[str, Any]) -> Slice:
    children = sorted((_slice(n, c) for n, c in node["inside"].items()), key=lambda s: -s.seconds)
    return Slice(name, node["own"] + sum(c.seconds for c in children), tuple(children))


def csv_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    columns = list(rows[0]) if rows else []
    yield ",".join(columns)
    for row in rows:
        yield ",".join(_quoted(row[c]) for c in columns)


def _quoted(value: Any) -> str:
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    from torchsleuth.case import files

    files.write_text(path, "\n".join(csv_lines(rows)) + "\n")
