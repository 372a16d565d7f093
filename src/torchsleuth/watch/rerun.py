"""The program once more, out of the user's sight: for what a Case alone cannot tell."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.watch.found import Found, Summary, summarise
from torchsleuth.watch.launcher import end_tree
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options

_PATIENCE = 3.0  # times as long as the first run
_LEAST = 60.0
NO_GRAPH_CACHE = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
_NUMBERS_PATIENCE = 4.0  # times longer still: each call is made several times


class Again:
    """Runs the command with no input and its output in logs/; what it found comes back as data."""

    def __init__(self, command: Sequence[str], logs: Path, seconds: float) -> None:
        self._command = list(command)
        self._logs = logs
        self._limit = max(_LEAST, _PATIENCE * seconds)
        self._eager: bool | None = None
        self._passed: dict[str, bool | None] = {}  # by backend
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    def fails_in_eager(self) -> bool:
        """With compilation off, and also with every graph in eager: some loops of torch's need Dynamo to run at all."""
        if self._eager is None:
            options = Options(hang_after=0, eager=True)
            failed = self._run("eager", {}, self._session("eager"), options) not in (0, None)
            self._eager = failed and not self.passes_with_graphs_on("eager")
        return self._eager and not self._ended.is_set()

    def end(self) -> None:
        """Ends what is running, and runs nothing more."""
        self._ended.set()
        if self._process is not None and self._process.returncode is None:  # else the number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def fails_with_graphs_on(self, backend: str, failure: Failure) -> bool | None:
        """In the same way, whatever backend the program asks for; None: it was not seen to end."""
        if failure.kind is Kind.ACCURACY:  # the program itself says so, by how it ends
            passes = self.passes_with_graphs_on(backend)
            return None if passes is None else not passes
        name = "dynamo" if backend == "eager" else backend
        session = self._session(name)
        override = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f">=0:{backend}"}
        code = self._run(name, override, session, Options(hang_after=0))
        found = summarise(session, code).found
        alike = any(f.failure.fingerprint.same_as(failure.fingerprint) for f in found)
        return alike if alike or code is not None else None

    def with_numbers(self, wanted: str) -> Summary:
        """What is found where every graph is compared with eager: "forward", "backward", "kinds" or "strides"."""
        name = wanted if wanted in ("kinds", "strides") else "numbers"
        session = self._session(name)
        options = Options(hang_after=0, numbers=wanted)
        return summarise(session, self._run(name, {}, session, options, patience=_NUMBERS_PATIENCE))

    def passes_with_graphs_on(self, backend: str) -> bool | None:
        """Every graph compiled by this backend, whatever the program asks for; None: it was not seen to end."""
        if backend not in self._passed:
            name = "dynamo" if backend == "eager" else backend
            override = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f">=0:{backend}"}
            code = self._run(name, override, self._session(name), Options(hang_after=0))
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
        self._run("look", private, session, Options(hang_after=0), at_most=at_most)

    def crash_with_values(self) -> Found | None:
        session = self._session("crash")
        code = self._run("crash", {}, session, Options(hang_after=0, dump_first=True))
        return next((f for f in summarise(session, code).found if f.failure.kind is Kind.CRASH), None)

    def explained(self, trace: Path, extra: dict[str, str]) -> int | None:
        """Runs it with torch's trace going to `trace`; the exit code."""
        environment = {"TORCH_TRACE": str(trace.resolve()), **extra}
        return self._run("explain", environment, self._session("explain"), Options(hang_after=0, explain=True))

    def _session(self, name: str) -> Path:
        session = self._logs / "watch" / f"again-{name}"
        session.mkdir(parents=True, exist_ok=True)
        return session

    def _run(
        self,
        name: str,
        extra: dict[str, str],
        session: Path | None = None,
        options: Options | None = None,
        *,
        patience: float = 1.0,
        at_most: float = math.inf,
        leave_caches: bool = True,
    ) -> int | None:
        """The exit code, or None when it did not end in time."""
        environment = {k: v for k, v in os.environ.items() if k not in (VARIABLE, OPTIONS)} | extra
        if session is not None and options is not None:
            left = replace(options, leave_caches=leave_caches)
            environment |= {VARIABLE: str(session.resolve()), OPTIONS: left.dump()}
        if self._ended.is_set():
            return None
        with (self._logs / f"again-{name}.txt").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is ours to handle
            )  # fmt: skip
            try:
                code = self._process.wait(timeout=min(self._limit * patience, at_most))
            except subprocess.TimeoutExpired:
                end_tree(self._process.pid)
                self._process.wait()
                code = None
            return None if self._ended.is_set() else code
