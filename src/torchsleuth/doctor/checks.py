"""The checks: each says ok, problem or note, what was found, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchsleuth import __version__
from torchsleuth.doctor import probe
from torchsleuth.doctor.interpreter import Interpreter, ask, read_last_line
from torchsleuth.watch.free_memory import available_memory

# Handed to the probe by path: importing it here would import torch, which may be what does not work.
_TORCH_API = Path(__file__).parents[1] / "torch_api"
_GIB = 1 << 30
_OLDEST_PYTHON, _NEWEST_PYTHON = (3, 10), (3, 13)
_OLDEST_TORCH = (2, 11)


class State(str, Enum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    state: State
    what: str
    found: str
    advice: str = ""
    is_detail: bool = False  # only in JSON: one of many that a line sums up

    @property
    def line(self) -> str:
        return f"{self.state.value:8} {self.what}: {self.found}{'. ' + self.advice if self.advice else ''}"


@dataclass(frozen=True)
class Facts:
    """The answers of the probe, by question."""

    answers: Mapping[str, Any]

    def get(self, question: str) -> tuple[Any, str]:
        row = self.answers.get(question) or {}
        return row.get("answer"), str(row.get("trouble") or "")


def examine(python: Interpreter, environment: Mapping[str, str]) -> Iterator[Check]:
    """Everything but the trial; `python` was found to start, or not."""
    yield _python(python)
    if python.error or python.numbers[:2] < _OLDEST_PYTHON:
        return
    yield from _environment(environment)
    answer = ask([python.path, str(probe.__file__), str(_TORCH_API)], environment)
    facts = read_last_line(answer)
    if not facts:
        yield Check(
            State.PROBLEM, "torch", f"importing it ended the process: {answer.trouble or 'no answer'}",
            f"Try `{python.path} -c 'import torch'`, and install torch again.",
        )  # fmt: skip
        return
    found = Facts(facts)
    yield from _torch(found, python)
    yield _entry_point(found, python)
    yield from _compiler(found)
    yield from _temporary(found)
    yield _memory()
    yield _fork(found)


def _python(python: Interpreter) -> Check:
    if python.error:
        return Check(State.PROBLEM, "Python", f"{python.path} {python.error}", "Name another with --python.")
    found = f"{python.version} ({python.path})"
    if python.numbers[:2] < _OLDEST_PYTHON:
        return Check(State.PROBLEM, "Python", found, "torchsleuth needs 3.10 or newer: use a newer Python.")
    if python.numbers[:2] > _NEWEST_PYTHON:
        return Check(State.NOTE, "Python", found, "torchsleuth was tried with 3.10 to 3.13 only.")
    return Check(State.OK, "Python", found)


def _environment(environment: Mapping[str, str]) -> Iterator[Check]:
    switch = environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    if switch != "1":
        yield Check(
            State.PROBLEM, "autoload", f"TORCH_DEVICE_BACKEND_AUTOLOAD={switch} keeps torchsleuth out of programs",
            "Unset it.",
        )  # fmt: skip
    else:
        yield Check(State.OK, "autoload", "torch loads torchsleuth at import")
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if environment.get(name, "0") not in ("", "0"):
            yield Check(State.PROBLEM, "torch.compile", f"{name} switches it off", "Unset it.")
    if environment.get("TORCHSLEUTH_WATCH"):
        yield Check(State.NOTE, "TORCHSLEUTH_WATCH", "set: this shell is itself watched", "Unset it.")


def _torch(facts: Facts, python: Interpreter) -> Iterator[Check]:
    answer, trouble = facts.get("torch")
    if trouble or not answer:
        missing = trouble.startswith("ModuleNotFoundError") and trouble.endswith("'torch'")
        yield Check(
            State.PROBLEM, "torch", "not installed" if missing else f"cannot be imported ({trouble})",
            f"Install it: {python.path} -m pip install 'torch>=2.11'.",
        )  # fmt: skip
        return
    device = f", {answer['device']}" if answer["device"] else ""
    found = f"{answer['version']} (built for {answer['built_for']}{device})"
    numbers = tuple(int(n) for n in re.findall(r"\d+", answer["version"])[:2])
    if numbers < _OLDEST_TORCH:
        yield Check(State.PROBLEM, "torch", found, "torchsleuth needs 2.11 or newer: upgrade torch.")
    else:
        yield Check(State.OK, "torch", found)
    yield from _hooks(facts)


_UPGRADE = "Upgrade torchsleuth; if there is no newer version, please report this line."


def _hooks(facts: Facts) -> Iterator[Check]:
    """One check for each place of torch that a hook needs; those that are found are shown together."""
    rows, trouble = facts.get("hooks")
    if not rows:
        reason = trouble or "the probe gave no answer"
        yield Check(State.PROBLEM, "hooks", f"torch could not be probed for them ({reason})", _UPGRADE)
        return
    for row in rows:
        if row["missing"]:
            state = State.PROBLEM if row["required"] else State.NOTE
            yield Check(state, "hook", row["missing"], _UPGRADE)
        else:
            yield Check(State.OK, "hook", f"{row['name']}: {row['does']}", is_detail=True)
    found = sum(not row["missing"] for row in rows)
    if found == len(rows):
        yield Check(State.OK, "hooks", f"torch has all {found} places that torchsleuth needs")


def _entry_point(facts: Facts, python: Interpreter) -> Check:
    points, trouble = facts.get("entry_points")
    again = f"Install torchsleuth into {python.path} as you did here."
    if not points:
        return Check(
            State.PROBLEM, "entry point", f"torchsleuth is not installed in this Python {trouble}".strip(), again
        )
    if len(points) > 1:
        values = ", ".join(f"{p['value']} of {p['version'] or 'unknown version'}" for p in points)
        return Check(
            State.PROBLEM, "entry point", f"registered {len(points)} times ({values})",
            "Uninstall torchsleuth until pip finds none, then install it once.",
        )  # fmt: skip
    point = points[0]
    if point["trouble"]:
        return Check(State.PROBLEM, "entry point", f"{point['value']} does not load ({point['trouble']})", again)
    if point["version"] != __version__:
        return Check(
            State.NOTE,
            "entry point",
            f"torchsleuth {point['version']} there, {__version__} here",
            "Use the same in both.",
        )
    return Check(State.OK, "entry point", f"{point['value']}, once")


def _compiler(facts: Facts) -> Iterator[Check]:
    if facts.get("torch")[0]:
        compiler, trouble = facts.get("compiler")
        if compiler:
            yield Check(State.OK, "C++ compiler", str(compiler))
        else:
            yield Check(
                State.PROBLEM, "C++ compiler", f"Inductor finds none ({trouble})",
                "Install g++ (Debian: apt install g++), or point CXX to one.",
            )  # fmt: skip
    folder, trouble = facts.get("headers")
    if not folder:
        yield Check(
            State.PROBLEM, "Python.h", f"missing ({trouble})",
            "Inductor's C++ code includes it. Install Python's headers (Debian: apt install python3-dev).",
        )  # fmt: skip


def _temporary(facts: Facts) -> Iterator[Check]:
    place, trouble = facts.get("temporary")
    if not place:
        yield Check(State.PROBLEM, "temporary folder", trouble, "Point TMPDIR to a folder that can be written.")
        return
    path, free = str(place["path"]), int(place["free"])
    size = f"{free / _GIB:.1f} GiB free in {path}"
    if place["no_exec"]:
        yield Check(
            State.PROBLEM, "temporary folder", f"{path} is mounted noexec: compiled code cannot be loaded from it",
            "Point TMPDIR elsewhere.",
        )  # fmt: skip
    elif not re.fullmatch(r"[\w./+-]+", path):
        yield Check(
            State.PROBLEM, "temporary folder", f"{path!r} holds characters that Inductor does not quote",
            "Point TMPDIR elsewhere.",
        )  # fmt: skip
    else:
        yield Check(State.OK, "temporary folder", f"{path} can be written")
    if free < _GIB:
        yield Check(State.PROBLEM, "disk", size, "1 GiB is needed: free some, or point TMPDIR elsewhere.")
    else:
        yield Check(State.OK, "disk", size)


def _memory() -> Check:
    free = available_memory()
    found = f"{free / _GIB:.1f} GiB free"
    if free < _GIB:
        return Check(State.PROBLEM, "memory", found, "A compilation takes about 1 GiB: end other programs.")
    if free < 2 * _GIB:
        return Check(State.NOTE, "memory", found, "Use --jobs 1: a compilation takes about 1 GiB.")
    return Check(State.OK, "memory", found)


def _fork(facts: Facts) -> Check:
    works, trouble = facts.get("fork")
    if works:
        return Check(State.OK, "fork", "works")
    return Check(
        State.PROBLEM, "fork", f"fails ({trouble})", "Raise the limit of processes (ulimit -u), or the container's."
    )
