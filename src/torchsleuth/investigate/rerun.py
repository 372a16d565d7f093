"""The program once more, out of the user's sight: for what a Case alone cannot tell.

It runs under a warden, like all that a judge runs, so nothing of it outlives us, whatever session its processes are in
and however we end.  Nothing else is a judge's: it has the program's own environment and folder, and as much memory.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.budget import Budget
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.investigate.program_end import ProgramEnd, match, repeated, with_output_of
from torchsleuth.judge.engines import LOCAL, Engines, Running
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.match import Match
from torchsleuth.judge.order import Cause, Ending
from torchsleuth.referee.nudge import Nudge, Step, read_steps
from torchsleuth.watch.found import Found, Summary, summarise
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options

_PATIENCE = 3.0  # times as long as the first run
_LEAST = 60.0
NO_GRAPH_CACHE = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
_NUMBERS_PATIENCE = 4.0  # times longer still: each call is made several times
# The same where nothing is fused, within the budget: what is said of the program depends on how it ends then.
_UNFUSED_PATIENCE = 4.0
_OFF = "compilation off"  # among the names of backends
_BACKENDS = "TORCH_COMPILE_OVERRIDE_BACKENDS"
_NUDGED = "sleuth_nudged"
_SESSION = "again-"
_FUSING = ("inductor",)


@dataclass(frozen=True)
class RerunOutcome:
    """What a rerun shows about the first run's failure, and how it ended."""

    match: Match
    end: ProgramEnd

    @property
    def evidence(self) -> str:
        """A part of a sentence whose subject is the program."""
        return self.end.text


@dataclass(frozen=True)
class NudgedRun:
    units: int  # in the last place, by which results were moved
    outcome: RerunOutcome
    steps: tuple[Step, ...]  # what each operator gave


class Again:
    """Runs the command with no input and its output in logs/, and compares each end with that of the first run."""

    def __init__(
        self,
        command: Sequence[str],
        logs: Path,
        seconds: float,
        budget: Budget | None = None,
        *,
        engines: Engines = LOCAL,
    ) -> None:
        """`seconds` is how long the first run took; no run lasts longer than what is left of `budget`."""
        self._command = tuple(command)
        self._logs = logs
        self._engines = engines
        self._limit = max(_LEAST, _PATIENCE * seconds)
        self._budget = budget
        self._unfused_limit = self._limit * (_UNFUSED_PATIENCE if budget is not None else 1.0)
        self._first = ProgramEnd(None)
        self._unchanged: list[ProgramEnd] = []
        self._ends: dict[str, ProgramEnd] = {}  # of runs that need not be made twice, by what was changed
        self._lock = threading.Lock()  # held while a run is begun: there is none that `end` does not know
        self._process: Running | None = None
        self._ended = False

    def compare_with(self, first: Summary) -> None:
        """Every later outcome says whether a rerun ended as this run did."""
        self._first = ProgramEnd.of(first)

    @property
    def first(self) -> ProgramEnd:
        return self._first

    def end(self) -> None:
        """Ends what is running, and runs nothing more."""
        with self._lock:
            self._ended = True
            process = self._process
        if process is not None:
            process.stop()

    def unchanged(self, failure: Failure | None = None, *, number: int = 0) -> RerunOutcome:
        """With the caches that it finds; the first such run also records what the program writes last."""
        while len(self._unchanged) <= number:
            self._unchanged.append(self._run_again("unchanged", {}, Options(hang_after=0)))
        end = self._unchanged[number]
        found = Match.UNKNOWN if self._ended else repeated(self._first, end, failure)
        if found is Match.SAME:
            self._first = with_output_of(self._first, end)
        return RerunOutcome(found, end)

    def without_compiling(self, failure: Failure | None = None, *, once_more: bool = False) -> RerunOutcome:
        """With compilation off, and where that fails also with every graph in eager.

        Some loops of torch's need Dynamo to run at all: a program that only fails without it passes in eager.
        """
        if once_more:
            self._ends.pop(_OFF, None)
        if _OFF not in self._ends:
            options = Options(hang_after=0, eager=True)
            self._ends[_OFF] = self._run_again("eager", {}, options, limit=self._unfused_limit)
        off = self._outcome(self._ends[_OFF], failure)
        if off.match is Match.PASSED or off.end.status is None:
            return off
        graphs = self.with_backend("eager", failure)
        if graphs.match is Match.PASSED:
            return graphs
        if off.end.error is not None and off.end.error.from_compiler:
            return replace(off, match=Match.INVALID)  # what it compiles is not switched off
        return graphs if off.match is Match.SAME else off

    def with_backend(self, backend: str, failure: Failure | None = None, *, once_more: bool = False) -> RerunOutcome:
        """Every graph compiled by this backend, whatever the program asks for."""
        if once_more:
            self._ends.pop(backend, None)
        if backend not in self._ends:
            name = "dynamo" if backend == "eager" else backend
            limit = self._limit if backend in _FUSING else self._unfused_limit
            override = {_BACKENDS: f">=0:{backend}"}
            self._ends[backend] = self._run_again(name, override, Options(hang_after=0), limit=limit)
        return self._outcome(self._ends[backend], failure)

    def nudged(self, seed: int, units: int, failure: Failure | None = None) -> NudgedRun:
        """Every graph in eager, each rounded result moved by so many units in the last place."""
        session = self._session("nudged")
        nudge = Nudge(seed, units, str((session / "steps").resolve()))
        environment = {_BACKENDS: f">=0:{_NUDGED}", **nudge.environment}
        options = Options(hang_after=0, seed=True)
        code = self._run("nudged", environment, session, options, limit=self._unfused_limit)
        outcome = self._outcome(self._end_of(session, code), failure)
        return NudgedRun(units, outcome, tuple(read_steps(session / "steps")))

    def with_settings(self, settings: Mapping[str, bool | int], failure: Failure | None = None) -> RerunOutcome:
        """With these entries of torch's configs."""
        end = self._run_again("advised", {}, Options(hang_after=0, settings=settings))
        return self._outcome(end, failure)

    def emulating_casts(self) -> RerunOutcome:
        """Inductor rounds each step as eager does, where it can."""
        environment = {"TORCHINDUCTOR_EMULATE_PRECISION_CASTS": "1"}
        end = self._run_again("casts", environment, Options(hang_after=0, draw_like_eager=True))
        return self._outcome(end, None)

    def uncompared(self, *, cached: bool = True, draw_like_eager: bool = True) -> RerunOutcome:
        """Nothing is compared.  Its caches are private, and filled as it goes, or without what AOTAutograd and Inductor
        keep of graphs.
        """
        name = "alone" if cached else "uncached"
        session = self._session(name)
        environment = {
            "TORCHINDUCTOR_CACHE_DIR": str((session / "cache").resolve()),
            **({} if cached else NO_GRAPH_CACHE),
        }
        options = Options(hang_after=0, draw_like_eager=draw_like_eager)
        code = self._run(name, environment, session, options, leave_caches=False)
        return self._outcome(self._end_of(session, code), None)

    def with_numbers(self, wanted: str) -> Summary:
        """What is found where every graph is compared with eager: "forward", "backward", "kinds" or "strides"."""
        name = wanted if wanted in ("kinds", "strides") else "numbers"
        session = self._session(name)
        options = Options(hang_after=0, numbers=wanted)
        return summarise(session, self._run(name, {}, session, options, limit=_NUMBERS_PATIENCE * self._limit))

    def look(self, session: Path, at_most: float = math.inf) -> None:
        """Only watched: what Dynamo captures stands in `session`, and so do the kernels."""
        private = {"TORCHINDUCTOR_CACHE_DIR": str(session / "cache")}
        self._run("look", private, session, Options(hang_after=0), limit=min(self._limit, at_most))

    def crash_with_values(self) -> Found | None:
        session = self._session("crash")
        code = self._run("crash", {}, session, Options(hang_after=0, dump_first=True))
        return next((f for f in summarise(session, code).found if f.failure.kind is Kind.CRASH), None)

    def explained(self, trace: Path, extra: dict[str, str]) -> int | None:
        """Runs it with torch's trace going to `trace`; the exit code, or None where it was not seen to end."""
        environment = {"TORCH_TRACE": str(trace.resolve()), **extra}
        return self._run("explain", environment, self._session("explain"), Options(hang_after=0, explain=True))

    def _run_again(
        self, name: str, extra: Mapping[str, str], options: Options, *, limit: float | None = None
    ) -> ProgramEnd:
        session = self._session(name)
        return self._end_of(session, self._run(name, extra, session, options, limit=limit))

    def _end_of(self, session: Path, code: int | None) -> ProgramEnd:
        return ProgramEnd.of(summarise(session, code), self._log_of("", session))

    def _log_of(self, name: str, session: Path) -> Path:
        own = session.name.startswith(_SESSION)
        return self._logs / f"{_SESSION}{session.name.removeprefix(_SESSION) if own else name}.txt"

    def _outcome(self, end: ProgramEnd, failure: Failure | None) -> RerunOutcome:
        found = match(self._first, end, failure)
        if found is Match.UNKNOWN and end.status is not None and not self._unchanged:
            self.unchanged(failure)  # nobody recorded what the first run wrote
            found = match(self._first, end, failure)
        return RerunOutcome(Match.UNKNOWN if self._ended else found, end)

    def _session(self, name: str) -> Path:
        """A folder of its own for each run: what two of them report must not be added up."""
        root = self._logs / "watch"
        places = (root / f"{_SESSION}{name}{f'-{n}' if n > 1 else ''}" for n in itertools.count(1))
        session = next(place for place in places if not place.exists())
        session.mkdir(parents=True)
        return session

    def _run(
        self,
        name: str,
        extra: Mapping[str, str],
        session: Path,
        options: Options,
        *,
        limit: float | None = None,
        leave_caches: bool = True,
    ) -> int | None:
        """The exit code, or None when it did not end in time."""
        left = replace(options, leave_caches=leave_caches)
        environment = {**os.environ, **extra, VARIABLE: str(session.resolve()), OPTIONS: left.dump()}
        output, ending = self._log_of(name, session), session / "ending.json"
        output.write_bytes(b"")
        ending.unlink(missing_ok=True)
        limits = Limits(self._at_most(limit if limit is not None else self._limit), memory=None)
        process = self._begin(Launch(self._command, environment, os.getcwd(), str(output), limits, str(ending)))
        if process is None:
            return None
        try:
            process.wait()
        finally:
            process.stop()
            process.wait()
        seen = Ending.read(str(ending))
        return seen.status if seen is not None and seen.cause is Cause.EXITED and not self._ended else None

    def _at_most(self, limit: float) -> float:
        return limit if self._budget is None else min(limit, self._budget.left())

    def _begin(self, launch: Launch) -> Running | None:
        """None: it was ended, or the budget was spent, before it began."""
        with self._lock:
            if self._ended or (self._budget is not None and self._budget.over()):
                return None
            self._process = self._engines.start(launch)
            return self._process
