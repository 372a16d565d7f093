"""The program once more, out of the user's sight: for what a Case alone cannot tell.

It runs under a warden, like all that a judge runs, so nothing of it outlives us, whatever session its processes are in
and however we end.  Nothing else is a judge's: it has the program's own environment and folder, and as much memory.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.judge.engines import LOCAL, Engines, Running
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.order import Cause, Ending
from torchsleuth.watch.found import Found, Summary, summarise
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options

_PATIENCE = 3.0  # times as long as the first run
_LEAST = 60.0
NO_GRAPH_CACHE = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
_NUMBERS_PATIENCE = 4.0  # times longer still: each call is made several times
# The same where nothing is fused.  All that is said of the program hangs on how it ends then, so it is worth the wait;
# but who gave us ten minutes is not made to wait for an hour.
_UNFUSED_PATIENCE = 4.0
_OFF = "compilation off"  # among the names of backends
_FUSING = ("inductor",)


class Again:
    """Runs the command with no input and its output in logs/; what it found comes back as data."""

    def __init__(
        self, command: Sequence[str], logs: Path, seconds: float, budget: float = 0.0, *, engines: Engines = LOCAL
    ) -> None:
        """`seconds` is how long the first run took; where nothing is fused it may take more, within `budget`."""
        self._command = tuple(command)
        self._logs = logs
        self._engines = engines
        self._limit = max(_LEAST, _PATIENCE * seconds)
        self._unfused_limit = max(self._limit, min(_UNFUSED_PATIENCE * self._limit, budget))
        self._passed: dict[str, bool | None] = {}  # by backend
        self._lock = threading.Lock()  # held while a run is begun: there is none that `end` does not know
        self._process: Running | None = None
        self._ended = False

    def fails_in_eager(self) -> bool | None:
        """With compilation off, and also with every graph in eager: some loops of torch's need Dynamo to run at all.

        None: it was not seen to end.
        """
        if _OFF not in self._passed:
            options = Options(hang_after=0, eager=True)
            code = self._run("eager", {}, self._session("eager"), options, limit=self._unfused_limit)
            self._passed[_OFF] = None if code is None else code == 0
        passes = self._passed[_OFF]
        if passes is False:
            passes = self.passes_with_graphs_on("eager")
        return None if passes is None or self._ended else not passes

    def end(self) -> None:
        """Ends what is running, and runs nothing more."""
        with self._lock:
            self._ended = True
            process = self._process
        if process is not None:
            process.stop()

    def fails_with_graphs_on(self, backend: str, failure: Failure) -> bool | None:
        """In the same way, whatever backend the program asks for; None: it was not seen to end."""
        if failure.kind is Kind.ACCURACY:  # the program itself says so, by how it ends
            passes = self.passes_with_graphs_on(backend)
            return None if passes is None else not passes
        code, session = self._with_graphs_on(backend)
        found = summarise(session, code).found
        alike = any(f.failure.fingerprint.same_as(failure.fingerprint) for f in found)
        return alike if alike or code is not None else None

    def with_numbers(self, wanted: str) -> Summary:
        """What is found where every graph is compared with eager: "forward", "backward", "kinds" or "strides"."""
        name = wanted if wanted in ("kinds", "strides") else "numbers"
        session = self._session(name)
        options = Options(hang_after=0, numbers=wanted)
        return summarise(session, self._run(name, {}, session, options, limit=_NUMBERS_PATIENCE * self._limit))

    def passes_with_graphs_on(self, backend: str) -> bool | None:
        """Every graph compiled by this backend, whatever the program asks for; None: it was not seen to end."""
        if backend not in self._passed:
            code, _ = self._with_graphs_on(backend)
            self._passed[backend] = None if code is None else code == 0
        return self._passed[backend]

    def passes_with(self, settings: Mapping[str, bool | int]) -> bool | None:
        """With these entries of torch's configs; None: it was not seen to end."""
        options = Options(hang_after=0, settings=settings)
        code = self._run("advised", {}, self._session("advised"), options)
        return None if code is None else code == 0

    def passes_rounding_alike(self) -> bool | None:
        """Inductor rounds each step as eager does, where it can; None: it was not seen to end."""
        environment = {"TORCHINDUCTOR_EMULATE_PRECISION_CASTS": "1"}
        code = self._run("casts", environment, self._session("casts"), Options(hang_after=0, draw_like_eager=True))
        return None if code is None else code == 0

    def passes_alone(self, *, cached: bool = True) -> bool | None:
        """Nothing is compared, and only the random numbers are eager's.  Its caches are private, and filled as it goes,
        or without what AOTAutograd and Inductor keep of graphs; None: it was not seen to end.
        """
        name = "alone" if cached else "uncached"
        session = self._session(name)
        environment = {
            "TORCHINDUCTOR_CACHE_DIR": str((session / "cache").resolve()),
            **({} if cached else NO_GRAPH_CACHE),
        }
        options = Options(hang_after=0, draw_like_eager=True)
        code = self._run(name, environment, session, options, leave_caches=False)
        return None if code is None else code == 0

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

    def _with_graphs_on(self, backend: str) -> tuple[int | None, Path]:
        name = "dynamo" if backend == "eager" else backend
        session = self._session(name)
        override = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f">=0:{backend}"}
        limit = self._limit if backend in _FUSING else self._unfused_limit
        return self._run(name, override, session, Options(hang_after=0), limit=limit), session

    def _session(self, name: str) -> Path:
        session = self._logs / "watch" / f"again-{name}"
        session.mkdir(parents=True, exist_ok=True)
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
        output, ending = self._logs / f"again-{name}.txt", session / "ending.json"
        output.write_bytes(b"")
        ending.unlink(missing_ok=True)
        limits = Limits(limit if limit is not None else self._limit, memory=None)
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

    def _begin(self, launch: Launch) -> Running | None:
        """None: it was ended before it began."""
        with self._lock:
            if self._ended:
                return None
            self._process = self._engines.start(launch)
            return self._process
