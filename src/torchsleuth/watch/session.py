"""What a watched process and the tool tell each other, in files.

    session/
      trouble.log                     faults of our own
      processes/<pid>-<time>/
        hello.json                    this process imported torch and is watched
        events.jsonl                  graphs, failures, the end
        stage                         what it is doing now; survives a crash, because the kernel keeps the page
        cases/<n>/                    Cases

A line of events.jsonl is written whole with one call, so a process that is killed leaves at most one broken line.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "TORCHSLEUTH_WATCH"
OPTIONS = "TORCHSLEUTH_OPTIONS"
_STAGE = struct.Struct("<IIId")
PHASES = ("", "compile-forward", "compile-backward", "run-forward", "run-backward")


@dataclass(frozen=True)
class Options:
    """What the tool asks of watched processes."""

    keep_going: bool = False
    data_cap: int = 2 * 2**30  # bytes of tensors that one Case may keep
    hang_after: float = 60.0  # seconds in one stage before a hang is suspected; 0: never
    most_cases: int = 12
    dump_first: bool = False  # keep values before each stage: after a crash that sizes alone did not show
    eager: bool = False  # compile nothing, and let nobody notice
    # Compare compiled graphs with eager: "forward"; "backward", gradients too; "strides", those of results too; or only
    # the "kinds" of results: then the program draws the random numbers that it draws by itself.
    numbers: str = ""
    draw_like_eager: bool = False  # random numbers; where graphs are compared that is so without being asked
    settings: Mapping[str, bool | int] = field(default_factory=dict)  # of torch's configs, by their full names
    leave_caches: bool = False  # write nothing into the user's caches of graphs: the program is run for our sake
    log: str = ""  # "steps": write down what the compiler begins and ends; "debug": and each traced instruction
    explain: bool = False  # keep no Cases: count what torch's own trace does not hold
    explain_ir: bool = False  # and keep Inductor's loops before and after fusion

    def dump(self) -> str:
        return json.dumps(self.__dict__)

    @staticmethod
    def load(text: str) -> Options:
        known = Options.__dataclass_fields__
        try:
            return Options(**{k: v for k, v in json.loads(text or "{}").items() if k in known})
        except (ValueError, TypeError, AttributeError):
            return Options()


@dataclass(frozen=True)
class Stage:
    """What a process was doing when it was last heard of."""

    phase: str = ""
    graph: int = 0
    since: float = 0.0


class Outbox:
    """A watched process's side."""

    def __init__(self, session: Path, options: Options) -> None:
        self.session = session
        self.options = options
        self.pid = 0
        self._open()

    def _open(self) -> None:
        self.pid = os.getpid()
        self.folder = self.session / "processes" / f"{self.pid}-{time.monotonic_ns()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stage: mmap.mmap | None = None

    def here(self) -> Outbox:
        """This process's own outbox: a fork gets a new one."""
        if os.getpid() != self.pid:
            self._open()
            self.hello()
        return self

    def hello(self) -> None:
        import platform

        data = {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "argv": list(getattr(sys, "orig_argv", sys.argv)),
            "executable": sys.executable,
            "python": platform.python_version(),
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
            "path": list(sys.path),
            "cwd": os.getcwd(),
            "rank": os.environ.get("RANK"),
        }
        (self.folder / "hello.json").write_text(json.dumps(data), encoding="utf-8")

    def event(self, name: str, **data: Any) -> None:
        line = json.dumps({"event": name, "time": time.time(), **data}, default=str) + "\n"
        handle = os.open(self.here().folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def stage(self, phase: str, graph: int) -> None:
        """Cheap enough for every call of a compiled graph: one write to mapped memory."""
        if self._stage is None or os.getpid() != self.pid:
            path = self.here().folder / "stage"
            path.write_bytes(b"\0" * _STAGE.size)
            with path.open("r+b") as file:
                self._stage = mmap.mmap(file.fileno(), _STAGE.size)
        _STAGE.pack_into(self._stage, 0, 1, PHASES.index(phase), graph, time.time())


@dataclass(frozen=True)
class Process:
    """The tool's side: what one watched process told."""

    folder: Path
    hello: dict[str, Any]
    events: tuple[dict[str, Any], ...]
    stage: Stage

    @property
    def ended(self) -> bool:
        return any(e["event"] == "end" for e in self.events)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == name]

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """Stages that lasted too long and had not come to their end when the process was last heard of."""
        cleared = {e.get("number") for e in self.of("cleared")}
        return [e for e in self.of("suspect") if e.get("number") not in cleared]


def processes(session: Path) -> Iterator[Process]:
    root = session / "processes"
    folders = sorted(root.iterdir(), key=lambda p: int(p.name.split("-")[1])) if root.is_dir() else []
    for folder in folders:
        try:
            hello = json.loads((folder / "hello.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        yield Process(folder, hello, tuple(_events(folder)), read_stage(folder))


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / "events.jsonl"
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the line that the process died in
        if isinstance(event, dict) and "event" in event:
            yield event


def read_stage(folder: Path) -> Stage:
    try:
        raw = (folder / "stage").read_bytes()
        _, phase, graph, since = _STAGE.unpack(raw[: _STAGE.size])
        return Stage(PHASES[phase], graph, since)
    except (OSError, struct.error, IndexError):
        return Stage()
