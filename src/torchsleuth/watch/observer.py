"""Decides, inside the program, what is a failure, and has it kept.

A failure is what reached the user: what left a frame's conversion, a compiled call or a backward; or what made Dynamo
fall back to eager where it had been told to suppress errors.  What a backend raises and Dynamo handles (restarts,
exceptions that may become a graph break) is none.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth import torch_api
from torchsleuth.case import aten, folder
from torchsleuth.case.failure import Phase, of_exception
from torchsleuth.watch import capture, steps, surroundings
from torchsleuth.watch.capture import Record
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.ledger import Ledger
from torchsleuth.watch.schedule import Schedule
from torchsleuth.watch.session import Outbox
from torchsleuth.watch.tracebacks import forget_our_frames, hide_our_frames, leads_to
from torchsleuth.watch.watchdog import Watchdog, limit_of


@dataclass(frozen=True)
class Trouble:
    """What a backend raised inside a conversion: a failure only if it gets out."""

    error: BaseException
    record: Record | None
    inputs: Sequence[Any] | None
    phase: Phase


@dataclass
class Attempt:
    """One frame that Dynamo is converting, and what went wrong inside so far."""

    place: str
    configs: surroundings.Configs  # before Dynamo patched its own for the time of the conversion
    errors: list[Trouble] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """A stage that a thread is in: for the watchdog, which may have to keep it."""

    record: Record | None
    phase: Phase
    inputs: Sequence[Any] | None
    around: BaseException | None = None  # what the program was handling when it began


def _cut_short(work: Work) -> bool:
    """Whether it is left because somebody lost patience with it, and not by its own end or error."""
    error = sys.exc_info()[1]
    return error is not work.around and isinstance(error, (KeyboardInterrupt, SystemExit, TimeoutError))


class Observer:
    def __init__(self, outbox: Outbox, steps: steps.Writer | None = None) -> None:
        self._ledger = Ledger(outbox)
        self._steps = steps
        self._local = threading.local()
        self._records: dict[str, Record] = {}
        self._graphs = 0
        self._backwards: dict[int, Record] = {}  # by id of the output code, which is not hashable
        self._watchdog = Watchdog(self)
        self._schedule = Schedule()
        self._backward_seen = False

    @property
    def outbox(self) -> Outbox:
        return self._ledger.outbox

    @property
    def active(self) -> bool:
        return self._ledger.active

    def report_to(self, ledger: Ledger) -> Ledger:
        """From now on failures are told there; gives what was in use, to be put back."""
        previous, self._ledger = self._ledger, ledger
        return previous

    # --- frames ---------------------------------------------------------------------------------------------------

    @property
    def _attempts(self) -> list[Attempt]:
        found: list[Attempt] = self._local.__dict__.setdefault("attempts", [])
        return found

    @guarded
    def frame_began(self, frame: Any) -> Attempt:
        code = getattr(frame, "f_code", None)
        place = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}" if code else ""
        if self._steps is not None:
            self._steps.frame(place)
        attempt = Attempt(place, surroundings.changed_configs())
        self._attempts.append(attempt)
        return attempt

    @guarded
    def frame_done(self, attempt: Attempt | None) -> None:
        if attempt is None:
            return
        self._attempts.remove(attempt)
        forward = [e for e in attempt.errors if e.phase is Phase.COMPILE_FORWARD]
        if forward and torch_api.suppresses_errors() and not torch_api.allowed_to_break(forward[-1].error):
            last = forward[-1]
            self._ledger.keep(last.record, last.error, last.phase, last.inputs, swallowed=True)

    @guarded
    def frame_failed(self, attempt: Attempt | None, error: BaseException) -> None:
        if attempt is None:
            return
        self._attempts.remove(attempt)
        if not isinstance(error, Exception):
            return  # Ctrl-C, or the program ends itself
        for trouble in reversed(attempt.errors):
            if leads_to(error, trouble.error):
                self._ledger.keep(trouble.record, error, trouble.phase, trouble.inputs)
                return
        if torch_api.is_control_flow(error):
            return
        failure = of_exception(error, Phase.COMPILE_FORWARD, dynamo=True)
        self._ledger.tell_alone(failure, error, attempt.place)

    # --- graphs ---------------------------------------------------------------------------------------------------

    @guarded
    def graph_began(self, module: Any, inputs: Sequence[Any], wrapper: Any) -> Record:
        self._graphs += 1
        backend = torch_api.unwrap_backend(wrapper)
        configs = self._attempts[-1].configs if self._attempts else surroundings.changed_configs()
        keep_module = self.outbox.options.keep_going or bool(self.outbox.options.numbers)
        record = capture.sketch(self._graphs, module, inputs, backend, configs, keep_module=keep_module)
        self._records[record.compile_id] = record
        self.outbox.event(
            "graph", number=record.number, compile_id=record.compile_id, ops=len(record.sketch.graph.nodes)
        )
        self._save_sketch(record, inputs)
        self.stage(record, Phase.COMPILE_FORWARD, inputs)
        self._watchdog.start()
        return record

    def _save_sketch(self, record: Record, inputs: Sequence[Any]) -> None:
        where = self.sketch_folder(record)
        if self.outbox.options.dump_first:
            capture.case_of(record, Phase.COMPILE_FORWARD, None, inputs, where, self.outbox.options.data_cap)
        else:
            folder.save(record.sketch, where)

    def sketch_folder(self, record: Record) -> Path:
        return self.outbox.here().folder / "sketches" / str(record.number)

    @guarded
    def graph_left(self, record: Record | None) -> None:
        if record is not None:
            self.unstage()

    @guarded
    def backend_failed(
        self, record: Record | None, error: BaseException, inputs: Sequence[Any]
    ) -> Callable[..., Any] | None:
        """Notes the error; with --keep-going gives what runs instead."""
        if not isinstance(error, Exception):
            return None
        if self._attempts:
            self._attempts[-1].errors.append(Trouble(error, record, inputs, Phase.COMPILE_FORWARD))
        if record is None or not self._goes_on(record) or torch_api.allowed_to_break(error):
            return None
        self._ledger.keep(record, error, Phase.COMPILE_FORWARD, inputs)
        if self._attempts:
            self._attempts[-1].errors.clear()
        return record.eager.forward if record.eager is not None else None

    def _goes_on(self, record: Record) -> bool:
        return self.outbox.options.keep_going and record.eager is not None

    def graph_compiled(self, record: Record | None, compiled: Callable[..., Any]) -> Callable[..., Any] | None:
        return self._wrap(record, compiled) if record is not None else None

    @guarded
    def _wrap(self, record: Record, compiled: Callable[..., Any]) -> Callable[..., Any]:
        capture.note_aot_mutations(record)

        @functools.wraps(compiled, updated=())
        def call(*args: Any) -> Any:
            __tracebackhide__ = True
            watched = self.active
            before = (self._before_call(record, args) if watched else None) or {}
            given = self._before_numbers(record, args) if watched and self.outbox.options.numbers else None
            try:
                outputs = compiled(*args)
                if given is not None:
                    self._look_at_numbers(record, compiled, given, outputs, args)
                return outputs
            except BaseException as error:
                record.written_over = watched and not record.mutated <= before.keys()
                inputs = guarded(capture.restored)(args, before)
                kept = watched and self.run_failed(record, error, Phase.RUN_FORWARD, inputs)
                goes_on = kept and self._goes_on(record) and guarded(capture.put_back)(record, args, before)
                if goes_on and record.eager is not None:
                    return record.eager.forward(*args)
                forget_our_frames(error)
                raise
            finally:
                if watched:
                    self.unstage()

        torch_api.copy_call_marks(compiled, call)
        return call

    @guarded
    def _before_call(self, record: Record, args: Sequence[Any]) -> dict[int, Any]:
        record.calls += 1
        self.stage(record, Phase.RUN_FORWARD, args)
        if self.outbox.options.dump_first:
            where = self.sketch_folder(record)
            capture.case_of(record, Phase.RUN_FORWARD, None, args, where, self.outbox.options.data_cap)
        if record.sketch.surroundings.grad:
            capture.remember_inputs(record, args)
        return capture.clone_mutated(record, args)

    @guarded
    def _before_numbers(self, record: Record, args: Sequence[Any]) -> Any:
        from torchsleuth.watch import numbers

        def too_large() -> None:
            self.outbox.event("too-large", graph=record.number)

        return numbers.before(self._schedule, record, args, too_large)

    @guarded
    def _look_at_numbers(
        self, record: Record, compiled: Callable[..., Any], given: Any, outputs: Any, args: Sequence[Any]
    ) -> None:
        from torchsleuth.watch import numbers

        wanted = self.outbox.options.numbers
        report, backward = numbers.look(self._schedule, record, compiled, given, outputs, args, wanted=wanted)
        excused = [f"{d.path}: {d.text} ({d.excused})" for d in report.excused[:5]]
        self.outbox.event(
            "numbers", graph=record.number, call=record.calls, compared=report.compared, excused=excused,
            strides=bool(report.strides), not_compared=[str(one) for one in report.not_compared[:5]],
        )  # fmt: skip
        if report.wrong:
            self._ledger.keep_wrong(record, numbers.failure_of(report, backward=backward), given.inputs)

    def run_failed(self, record: Record, error: BaseException, phase: Phase, inputs: Sequence[Any] | None) -> bool:
        """Keeps what a compiled call raised; True when it was kept."""
        return isinstance(error, Exception) and self._ledger.keep(record, error, phase, inputs)

    # --- Inductor and backwards -----------------------------------------------------------------------------------

    @guarded
    def record_now(self) -> Record | None:
        return self._records.get(torch_api.compile_id())

    @guarded
    def inner_began(self, module: Any, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Record | None:
        record = self.record_now()
        if record is None:
            return None
        backward = bool(kwargs.get("is_backward"))
        case = guarded(aten.sketch)(module, inputs, kwargs, record.sketch, record.roots)
        if case is not None:
            record.aten[backward] = case
            if not backward and any("_functorch" in node.target for node in record.sketch.graph.nodes):
                # Should the process die: functorch's levels can hardly be taken apart, what became of them can.
                guarded(folder.save)(aten.finished(case, Phase.RUN_FORWARD, None), self.sketch_folder(record) / "inner")
        self.stage(record, Phase.COMPILE_BACKWARD if backward else Phase.COMPILE_FORWARD)
        return record

    @guarded
    def inner_left(self, record: Record | None, backward: bool) -> None:
        if record is not None:
            self.unstage()

    @guarded
    def inner_failed(
        self, record: Record | None, error: BaseException, backward: bool, module: Any
    ) -> Callable[..., Any] | None:
        """A forward's error goes on through the backend hook; a backward's reaches the user from here."""
        if record is None or not backward or not isinstance(error, Exception) or torch_api.allowed_to_break(error):
            return None
        if self._attempts:
            # The backward is being compiled ahead of time, inside the forward: Dynamo may yet swallow it.
            self._attempts[-1].errors.append(Trouble(error, record, None, Phase.COMPILE_BACKWARD))
            return None
        self._ledger.keep(record, error, Phase.COMPILE_BACKWARD, None)
        return torch_api.boxed(module.forward) if self.outbox.options.keep_going else None

    @guarded
    def output_code_ready(self, code: Any) -> None:
        record = self.record_now()
        if record is not None and torch_api.is_backward_code(code):
            self._backwards[id(code)] = record
            weakref.finalize(code, self._backwards.pop, id(code), None)

    def backward_of(self, code: Any) -> Record | None:
        return self._backwards.get(id(code))

    # --- stages ---------------------------------------------------------------------------------------------------

    @property
    def _work(self) -> list[Work]:
        found: list[Work] = self._local.__dict__.setdefault("work", [])
        return found

    @guarded
    def stage(self, record: Record | None, phase: Phase, inputs: Sequence[Any] | None = None) -> None:
        work = self._work
        work.append(Work(record, phase, inputs, sys.exc_info()[1]))
        if not self.active:
            return
        if phase is Phase.RUN_BACKWARD and not self._backward_seen:
            self._backward_seen = True
            self.outbox.event("backward")
        self._tell(work)

    @guarded
    def unstage(self) -> None:
        work = self._work
        over = work.pop() if work else None
        if not self.active:
            return
        self._tell(work)
        if over is not None and not _cut_short(over):
            self._watchdog.over(over)

    def _tell(self, work: list[Work]) -> None:
        if work:
            now = work[-1]
            limit = limit_of(now, work, self.outbox.options.hang_after)
            self.outbox.stage(now.phase.value, now.record.number if now.record else 0, limit)
        else:
            self.outbox.stage("", 0)
        self._watchdog.entered(work)

    # --- the end --------------------------------------------------------------------------------------------------

    def keep_suspect(self, work: Work, seconds: float) -> int | None:
        """Its number."""
        if work.record is None:
            return None
        return self._ledger.keep_suspect(work.record, work.phase, work.inputs, seconds)

    def clear_suspect(self, number: int) -> None:
        self._ledger.clear_suspect(number)

    def note_end(self, error: BaseException) -> None:
        self._ledger.note_end(error)

    def watch_the_end(self) -> None:
        """Which failure ended the program; and our frames taken out of the traceback that is printed."""
        previous = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            self.note_end(error)
            guarded(hide_our_frames)(error)
            previous(kind, error, error.__traceback__)

        sys.excepthook = hook
