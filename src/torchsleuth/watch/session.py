"""What a watched process and the tool tell each other, in files.

    session/
      trouble.log                     faults of our own
      processes/<pid>-<time>/
        hello.json                    this process imported torch and is watched
        events.jsonl                  graphs, failures, the end
        stage                         what its threads are doing now
        cases/<n>/                    Cases

A line of events.jsonl is written whole with one call, so a process that is killed leaves at most one broken line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth.watch import alive, stages
from torchsleuth.watch.stages import Stage

VARIABLE = "TORCHSLEUTH_WATCH"
OPTIONS = "TORCHSLEUTH_OPTIONS"
_RUN_ALONE_LATER = {"graph", "failure", "suspect"}  # events after which a Case may need the program's modules


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
    seed: bool = False  # torch's random numbers start from a seed, so that two runs of a program draw alike
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


class Outbox:
    """A watched process's side."""

    def __init__(self, session: Path, options: Options) -> None:
        self.session = session
        self.options = options
        self.pid = 0
        self.end_noted = False  # whether an uncaught exception of this process was reported
        self._open()

    def _open(self) -> None:
        self.pid = os.getpid()
        self.end_noted = False
        self.folder = self.session / "processes" / f"{self.pid}-{time.monotonic_ns()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._board: stages.Board | None = None
        self._opening = threading.Lock()  # a fork's own: nobody would open the one that it took along
        self._told_path: list[str] = []

    def here(self) -> Outbox:
        """This process's own outbox: a fork gets a new one."""
        if os.getpid() != self.pid:
            self._open()
            self.hello()
        return self

    def hello(self) -> None:
        import platform

        self._told_path = list(sys.path)
        data = {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "argv": list(getattr(sys, "orig_argv", sys.argv)),
            "executable": sys.executable,
            "python": platform.python_version(),
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
            "path": self._told_path,
            "prefixes": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix}),
            "cwd": os.getcwd(),
            "rank": os.environ.get("RANK"),
            "life": alive.mark(),
        }
        (self.folder / "hello.json").write_text(json.dumps(data), encoding="utf-8")

    def event(self, name: str, **data: Any) -> None:
        self.end_noted |= name == "ended-by"
        if name in _RUN_ALONE_LATER and sys.path != self._told_path:  # the program may have added to it since its hello
            self._told_path = list(sys.path)
            self._write("path", path=self._told_path)
        self._write(name, **data)

    def _write(self, name: str, **data: Any) -> None:
        line = json.dumps({"event": name, "time": time.time(), **data}, default=str) + "\n"
        handle = os.open(self.here().folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def stage(self, phase: str, graph: int, limit: float = 0.0) -> None:
        """What this thread does from now on; "" is nothing."""
        if self._board is None or os.getpid() != self.pid:
            with self.here()._opening:  # two threads at once would map a file that one of them cuts off
                self._board = self._board or stages.Board(self.folder / "stage")
        self._board.tell(phase, graph, limit)


@dataclass(frozen=True)
class Process:
    """The tool's side: what one watched process told."""

    folder: Path
    hello: dict[str, Any]
    events: tuple[dict[str, Any], ...] = ()
    stages: tuple[Stage, ...] = ()  # that its threads were in when it was last heard of, the latest first

    @property
    def ended(self) -> bool:
        """By its own last word; one that was killed has none."""
        return any(e["event"] == "end" for e in self.events)

    @property
    def path(self) -> list[str]:
        """Where it found modules when it was last heard of, less its interpreter's own folders."""
        told = next((e["path"] for e in reversed(self.of("path"))), self.hello.get("path", []))
        prefixes = [str(one).rstrip("/") for one in self.hello.get("prefixes", [])]
        return [one or str(self.hello.get("cwd", ".")) for one in map(str, told) if not _of_interpreter(one, prefixes)]

    @property
    def gone(self) -> bool:
        """Whether it is known to live no more."""
        return self.ended or alive.gone(self.hello.get("life"))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == name]

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """Stages that lasted too long and had not come to their end when the process was last heard of."""
        cleared = {e.get("number") for e in self.of("cleared")}
        return [e for e in self.of("suspect") if e.get("number") not in cleared]


def _of_interpreter(folder: str, prefixes: Sequence[str]) -> bool:
    own = (f"{prefix}/{lib}/python" for prefix in prefixes for lib in ("lib", "lib64", "local/lib"))
    return Path(folder).name in ("site-packages", "dist-packages") or folder.startswith(tuple(own))


def processes(session: Path) -> Iterator[Process]:
    root = session / "processes"
    folders = sorted(root.iterdir(), key=lambda p: int(p.name.split("-")[1])) if root.is_dir() else []
    for folder in folders:
        try:
            hello = json.loads((folder / "hello.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        yield Process(folder, hello, tuple(_events(folder)), stages.read(folder / "stage"))


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
