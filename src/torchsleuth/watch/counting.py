"""Counts, inside the program, what torch's structured trace does not hold.

The trace tells of a graph break when it compiles, once.  How often it is hit, and how often compiled code serves again,
is counted here: the bytecode that Dynamo generates gets one addition to a cell of a mapped file, so that the numbers
survive a crash.  A frame that ends at a break runs that addition each time it comes there, since generated code holds
one break at most.  A frame that Dynamo gives up at a break (inside a loop, a `with`) runs its own code; that code gets
the addition at the line of the break.

Beside it the values that a recompilation met are kept: the trace says `scale == 0.5` failed, not what scale was.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import mmap
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torchsleuth import torch_api
from torchsleuth.torch_api import attaching, hook_table
from torchsleuth.torch_api.hook_table import Hook
from torchsleuth.watch import attach
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.module_numbers import Modules
from torchsleuth.watch.readable import as_python
from torchsleuth.watch.session import Outbox
from torchsleuth.watch.tracebacks import forget_our_frames
from torchsleuth.watch.values import values_of

COUNTS = "counts"
SLOTS = 1 << 16
_MOST_LOOPS = 400_000
_MOST_TEXT = 50_000  # characters of Python a frame
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


class Cells:
    """Numbers in a mapped file; a fork that compiles anew gets a file of its own."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._pid = 0
        self._used = 0
        self._array: Any = None

    def take(self, compile_id: str, again: int, line: int | None = None) -> tuple[Any, int] | None:
        """A cell for the generated code of `compile_id`, or for one line of a frame that Dynamo gave up."""
        if self._pid != os.getpid():
            self._open()
        if self._used >= SLOTS:
            return None
        slot, self._used = self._used, self._used + 1
        self._outbox.event("cell", slot=slot, compile_id=compile_id, again=again, line=line)
        return self._array, slot

    def _open(self) -> None:
        path = self._outbox.here().folder / COUNTS
        with path.open("w+b") as file:
            file.truncate(SLOTS * 8)
            mapped = mmap.mmap(file.fileno(), SLOTS * 8)
        self._array = (ctypes.c_uint64 * SLOTS).from_buffer(mapped)
        self._pid, self._used = os.getpid(), 0


@dataclass
class Conversion:
    """A frame that Dynamo is converting, and the break it met."""

    frame: Any
    break_text: str = ""
    compile_id: str = ""


class Counter(logging.Handler):
    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self.outbox = outbox
        self.cells = Cells(outbox)
        self.active = True
        self._listens = False
        self._local = threading.local()
        self._modules = Modules()
        self._starts: dict[str, int] = {}  # torch._dynamo.reset() lets compile ids begin anew

    @property
    def _conversions(self) -> list[Conversion]:
        found: list[Conversion] = self._local.__dict__.setdefault("conversions", [])
        return found

    def listen(self) -> None:
        """Begin to receive the records of torch's trace."""
        torch_api.on_trace(self)
        self._listens = True

    def stop(self) -> None:
        self.active = False
        if self._listens:
            torch_api.no_more_trace(self)

    # --- what the trace tells, at the moment it does ----------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        name = metadata.get("artifact", {}).get("name")
        if "dynamo_start" in metadata:
            guarded(self._started)()
        elif name == "dynamo_graph_break_reason":
            guarded(self._broke)(str(getattr(record, "payload", "")))
        elif name == "recompile_reasons":
            guarded(self._recompiles)()

    def _started(self) -> None:
        compile_id = torch_api.compile_id()
        self._starts[compile_id] = self._starts.get(compile_id, 0) + 1
        self._tell_module(compile_id, self._again(compile_id))

    def _tell_module(self, compile_id: str, again: int) -> None:
        """Which module a frame belongs to: separately compiled modules of one class share their code."""
        if not self._conversions:
            return
        found = self._modules.of(self._conversions[-1].frame)
        if found is not None:
            variable, kind, number = found
            self.outbox.event("module", compile_id=compile_id, again=again, variable=variable, kind=kind, number=number)

    def _again(self, compile_id: str) -> int:
        return max(0, self._starts.get(compile_id, 1) - 1)

    def _broke(self, text: str) -> None:
        compile_id = torch_api.compile_id()
        self.outbox.event("break", compile_id=compile_id, text=text[:4000])
        if self._conversions:
            self._conversions[-1].break_text = text
            self._conversions[-1].compile_id = compile_id

    def _recompiles(self) -> None:
        if self._conversions:
            compile_id = torch_api.compile_id()
            self._tell_module(compile_id, self._starts.get(compile_id, 0))
            values = values_of(getattr(self._conversions[-1].frame, "f_locals", {}))
            self.outbox.event("values", compile_id=compile_id, again=self._starts.get(compile_id, 0), values=values)

    # --- frames -----------------------------------------------------------------------------------------------------

    @guarded
    def generated(self, code: CodeType, generated: CodeType) -> CodeType | None:
        """What runs in place of `generated`: the same, counted."""
        compile_id = torch_api.compile_id()
        self._keep_readable(code, generated, compile_id)
        if torch_api.bytecode_is_kept():
            return None
        cell = self.cells.take(compile_id, self._again(compile_id))
        return None if cell is None else torch_api.counting(generated, *cell)

    @guarded
    def _keep_readable(self, code: CodeType, generated: CodeType, compile_id: str) -> None:
        text = as_python(generated, code.co_name)
        self.outbox.event("generated", compile_id=compile_id, again=self._again(compile_id), text=text[:_MOST_TEXT])

    @guarded
    def loops(self, nodes: Any) -> str:
        return "\n".join(node.debug_str() for node in nodes)[:_MOST_LOOPS]

    @guarded
    def keep_loops(self, before: str, fused: Any) -> None:
        compile_id = torch_api.compile_id()
        for name, text in (("ir_pre_fusion", before), ("ir_post_fusion", self.loops(fused))):
            if text is not None:
                self.outbox.event(name, compile_id=compile_id, again=self._again(compile_id), text=text)

    def began(self, frame: Any) -> Conversion:
        if self._listens:
            torch_api.on_trace(self)  # torch._logging.set_logs may have taken us off
        conversion = Conversion(frame)
        self._conversions.append(conversion)
        return conversion

    @guarded
    def left(self, conversion: Conversion, result: Any) -> Any:
        """What the frame callback gives: where Dynamo gave up at a break, the frame's own code with a counter in it."""
        self._conversions.remove(conversion)
        if conversion.break_text and getattr(result, "guarded_code", result) is None:
            return self._count_line(conversion)
        code = getattr(conversion.frame, "f_code", None)
        if code is not None and code.co_flags & _GENERATES and torch_api.gave_up_silently(result):
            self.outbox.event("generator", file=code.co_filename, line=code.co_firstlineno, function=code.co_name)
        return None

    def _count_line(self, conversion: Conversion) -> Any:
        code = conversion.frame.f_code
        line = _line_in(code, conversion.break_text)
        if line is None or code.co_flags & _SUSPENDS or torch_api.bytecode_is_kept():
            return None
        cell = self.cells.take(conversion.compile_id, self._again(conversion.compile_id), line)
        if cell is None:
            return None
        return torch_api.run_instead(torch_api.counting(code, *cell, line), conversion.compile_id)


def _line_in(code: CodeType, break_text: str) -> int | None:
    """The line of `code` at which the break was met, itself or in what it called."""
    _, _, stack = break_text.partition("User code traceback:")
    lines = {number for _, _, number in code.co_lines()}
    for file, line, _ in reversed(_FRAME.findall(stack.partition("\n\n")[0])):
        if file == code.co_filename and int(line) in lines:
            return int(line)
    return None


_GENERATES = 0x20
_SUSPENDS = 0x20 | 0x80 | 0x200  # generators, coroutines and asynchronous generators keep their frame


def install(outbox: Outbox) -> Callable[[], None]:
    """Begins to count in this process; gives what ends it."""
    counter = Counter(outbox)
    undo: list[Callable[[], None]] = []
    attach.now(lambda: undo.append(torch_api.on_bytecode(counter.generated)))
    attach.now(counter.listen)
    _attach(hook_table.FRAMES, functools.partial(_count_frames, counter))
    if outbox.options.explain_ir:
        _attach(hook_table.FUSION_LOOPS, functools.partial(_keep_fusion, counter))

    def end() -> None:
        for one in (*undo, counter.stop):
            one()

    return end


def _attach(hook: Hook, wrap: Callable[[Any], Any]) -> None:
    attach.when_imported(hook, functools.partial(attaching.replace, hook, wrap))


def _count_frames(counter: Counter, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not counter.active:
            return original(self, *args, **kwargs)
        conversion = counter.began(args[0] if args else None)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            counter.left(conversion, error)
            forget_our_frames(error)
            raise
        return counter.left(conversion, result) or result

    return convert


def _keep_fusion(counter: Counter, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fuse(self: Any, nodes: Any) -> Any:
        before = counter.loops(nodes) if counter.active else None
        fused = original(self, nodes)
        if before is not None:
            counter.keep_loops(before, fused)
        return fused

    return fuse
