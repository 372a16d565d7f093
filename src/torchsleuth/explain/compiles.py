"""From records to compilations: what happened to each frame that Dynamo took, one entry a compile id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torchsleuth.explain.break_text import BreakText, Place, parse_break, plain_function, resumed_at
from torchsleuth.explain.cache_lookups import Lookup, lookup_of
from torchsleuth.explain.operators import Operators, operators_of
from torchsleuth.explain.outside import Keep, Outside
from torchsleuth.explain.records import Reading, Record


@dataclass
class Compile:
    process: str
    id: str
    again: int = 0  # torch._dynamo.reset() lets the numbers begin anew: which compilation of this id
    name: str = ""  # of the code object: torch_dynamo_resume_in_toy_at_12
    file: str = ""
    line: int = 0
    stack: tuple[Place, ...] = ()  # how the program came here, outermost first
    graphs: int = 0
    ops: int = 0
    guards: int = 0
    operators: Operators | None = None  # of the graph, from its text; None: there is none, or it was not to be read
    met: BreakText | None = None  # the break that it ends at
    reasons: tuple[str, ...] = ()  # why what was compiled before did not serve, the newest first
    started: bool = False
    ended: bool = False  # torch wrote what came of it; False: it was cut short, or that is not in the trace
    compiled: bool = False
    failed: str = ""
    failed_at: tuple[str, int] | None = None
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    cache: str = ""  # "hit" or "miss"
    lookups: list[Lookup] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # records of it that could not be read
    module_class: str = ""  # of the module whose function it is, where that is known
    module_name: str = ""  # the local variable that holds the module: self; fn in a function of torch's own
    instance: int = 0  # which module of that class, in the order of compilation; 0: nobody looked
    calls: int | None = None  # how often the generated code ran; None: nobody counted
    line_hits: int = 0  # how often a frame that was given up came to its break
    values: dict[str, str] = field(default_factory=dict)
    guard_lines: dict[str, Place] = field(default_factory=dict)  # the user's line that made the guard on a name
    artifacts: list[str] = field(default_factory=list)

    @property
    def function(self) -> str:
        return plain_function(self.name)

    @property
    def resumed_at(self) -> int | None:
        return resumed_at(self.name)

    @property
    def key(self) -> str:
        return f"{self.process} {self.id} {self.again}"

    @property
    def is_again(self) -> bool:
        """Whether something was compiled of the same frame before, by the number that torch gave it."""
        return self.id.rpartition("/")[2] not in ("", "0")

    @property
    def limit_hit(self) -> bool:
        return "recompile limit exceeded" in self.failed or "cache_size_limit" in self.failed


class Collector:
    """Takes records; holds one small entry a compilation, whatever the length of the trace."""

    def __init__(self, reading: Reading, keep: Keep | None = None) -> None:
        self.reading = reading
        self._latest: dict[tuple[str, str], Compile] = {}
        self.compiles: list[Compile] = []
        self.outside = Outside()
        self.torch = ""
        self._keep = keep

    def take(self, records: Iterable[Record]) -> None:
        for record in records:
            self.one(record)

    def one(self, record: Record) -> None:
        if record.name == "torch_version":
            self.torch = str(_json(record.payload).get("pytorch_version", self.torch))
        if record.kind == "chromium_event":
            return
        if not _has_frame(record.compile_id):
            self.outside.take(record, self._keep)
            return
        compile = self._compile_of(record)
        self._handle(compile, record)
        if self._keep is not None and record.payload:
            self._keep(compile, record.name, record.payload)

    def _handle(self, compile: Compile, record: Record) -> None:
        if record.corrupt and record.name in _READ_FROM_PAYLOAD:
            compile.unread.append(record.name)
            return
        lookup = lookup_of(record)
        if lookup is not None:
            compile.lookups.append(lookup)
        handle = getattr(self, f"_{record.name}", None) if record.name in _HANDLED else None
        if handle is None:
            return
        try:
            handle(compile, record)
        except (LookupError, TypeError, ValueError, AttributeError):
            self.reading.broken_lines += 1
            compile.unread.append(record.name)

    def latest(self, record: Record) -> Compile | None:
        """The compilation that an event belongs to."""
        return self._latest.get((record.process, record.compile_id))

    def move_frameless(self, since: int) -> None:
        """Put aside, of what was read since, the graphs that Dynamo captured without the beginning of any frame.

        To be called where the trace is known not to be cut: there, a beginning that is not in it never was.
        """
        kept = self.compiles[:since]
        for compile in self.compiles[since:]:
            if compile.graphs and not compile.started and not compile.ended:
                self.outside.add_captured(compile.process, compile.id, compile.operators, compile.lookups)
            else:
                kept.append(compile)
        self.compiles = kept

    def _compile_of(self, record: Record) -> Compile:
        key = (record.process, record.compile_id)
        latest = self._latest.get(key)
        begins = record.name in ("dynamo_start", "recompile_reasons")
        if latest is None or (begins and (latest.started or latest.graphs or latest.ended)):
            latest = Compile(*key, again=0 if latest is None else latest.again + 1)
            self._latest[key] = latest
            self.compiles.append(latest)
        return latest

    def _dynamo_start(self, compile: Compile, record: Record) -> None:
        stack = tuple(
            Place(self.reading.file(record.process, f.get("filename")), int(f["line"]), str(f["name"]))
            for f in record.data["stack"]
        )
        compile.started = True
        compile.stack = stack[:-1]
        last = stack[-1]
        compile.file, compile.line, compile.name = last.file, last.line, last.function

    def _dynamo_graph_break_reason(self, compile: Compile, record: Record) -> None:
        # Generated code ends at one break.  An attempt that was begun again may have met another one before.
        compile.met = parse_break(record.payload)

    def _recompile_reasons(self, compile: Compile, record: Record) -> None:
        text = record.payload.strip()
        listed = json.loads(text) if text.startswith("[") else [text]
        compile.reasons = tuple(str(each) for each in listed)

    def _dynamo_output_graph(self, compile: Compile, record: Record) -> None:
        compile.graphs = 1  # an attempt that was begun again gives its graph again
        compile.operators = operators_of(record.payload)

    def _dynamo_cpp_guards_str(self, compile: Compile, record: Record) -> None:
        lines = record.payload.splitlines()
        compile.module_class = compile.module_class or module_guarded(record.payload)
        compile.guards = sum("+- " in line and "GuardManager" not in line for line in lines)
        for line in lines:
            found = _GUARD.search(line)
            if found and len(compile.guard_lines) < _MOST_GUARD_LINES:
                file = compile.file if compile.file.endswith(found[2]) else found[2]
                place = Place(file, int(found[3]), plain_function(found[4]))
                compile.guard_lines.setdefault(_plain_source(found[1]), place)

    def _compilation_metrics(self, compile: Compile, record: Record) -> None:
        data = record.data
        compile.name = compile.name or str(data.get("co_name") or "")
        compile.file = compile.file or str(data.get("co_filename") or "")
        compile.line = compile.line or int(data.get("co_firstlineno") or 0)
        if data.get("is_forward", True) is not False:
            compile.ended = True
            compile.compiled = bool(data.get("has_guarded_code"))
            compile.ops = int(data.get("graph_op_count") or 0)
            compile.guards = int(data.get("guard_count") or compile.guards)
            if data.get("fail_type"):
                compile.failed = f"{data['fail_type']}: {data.get('fail_reason') or ''}"
            if data.get("fail_user_frame_filename"):
                compile.failed_at = (data["fail_user_frame_filename"], int(data.get("fail_user_frame_lineno") or 0))
        compile.seconds += float(data.get("duration_us") or 0) / 1e6
        for phase, seconds in _phases(data).items():
            compile.phases[phase] = compile.phases.get(phase, 0.0) + seconds
        hits = int(data.get("aotautograd_local_cache_hit_count") or 0) + int(
            data.get("inductor_fx_local_cache_hit_count") or 0
        )
        if hits or data.get("inductor_fx_local_cache_miss_count"):
            compile.cache = "hit" if hits else "miss"


_HANDLED = frozenset(
    {
        "dynamo_start",
        "dynamo_graph_break_reason",
        "recompile_reasons",
        "dynamo_output_graph",
        "dynamo_cpp_guards_str",
        "compilation_metrics",
    }
)
_READ_FROM_PAYLOAD = _HANDLED - {"dynamo_start", "compilation_metrics"}


def _has_frame(compile_id: str) -> bool:
    """Compiled autograd alone has a number and no frame: "!0"."""
    return "/" in compile_id


_CLASS = re.compile(r"___check_type_id\(L\['fn'\], \d+\), type=<class '([\w.]+)'>")


def module_guarded(guards: str) -> str:
    """The class of the module that a function of torch's own calls as `fn`, by its guards; "" where it is none."""
    found = _CLASS.search(guards)
    is_module = found is not None and (found[1].startswith("torch.nn.") or "L['fn']._modules" in guards)
    return found[1] if found is not None and is_module else ""


_GUARD = re.compile(r"\+- [A-Z_]+: [^#]*?((?:L|G)\[[^#]*?)(?:,| ==| is|\)).*#\s*(\S+):(\d+) in (\S+)\s*$")
_MOST_GUARD_LINES = 400


def _plain_source(source: str) -> str:
    """x for L['x'], as recompilation reasons name it."""
    found = re.match(r"[LG]\['(\w+)'\]", source)
    return found[1] if found else source


def _phases(data: dict[str, Any]) -> dict[str, float]:
    """Seconds of each phase alone; the trace gives each with what it holds."""

    def seconds(name: str) -> float:
        return float(data.get(name) or 0) / 1e6

    whole = seconds("duration_us")
    backend = seconds("aot_autograd_cumulative_compile_time_us")
    inductor = seconds("inductor_cumulative_compile_time_us")
    if data.get("is_forward", True) is False:
        return {"aot": max(0.0, whole - inductor), "inductor": inductor}
    return {
        "dynamo": max(0.0, whole - backend),
        "aot": max(0.0, backend - inductor),
        "inductor": inductor,
    }


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
