"""Everything that torchsleuth learns by running a process, behind one protocol.

An Engines object is made by the command (or by a test) and handed down; whoever needs a judge, the program, or one of
torchsleuth's own short helpers asks it.  `LocalEngines` starts processes on this machine.  The tests have two more:
one that records every answer, and one that answers from such a record and starts nothing.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torchsleuth.case.failure import Phase
from torchsleuth.judge.base import Judge
from torchsleuth.judge.by_command import CommandJudge
from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.setting import ask_versions
from torchsleuth.judge.verify import run_fresh
from torchsleuth.watch import launcher
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Options


class Running(Protocol):
    """A command that was started under guard."""

    def wait(self, seconds: float | None = None) -> bool:
        """Return whether the command, and everything that it started, is gone."""

    def stop(self) -> None:
        """Have everything killed, without waiting for it."""


class Engines(Protocol):
    """Where answers come from: processes on this machine, or a record of such processes."""

    def open_judge(
        self,
        devices: Collection[str],
        *,
        python: str,
        environment: Mapping[str, str],
        scratch: Path,
        path: Sequence[str] = (),
        jobs: int = 2,
    ) -> Judge:
        """Open the Judge that candidates on these devices need."""

    def open_check(self, command: str, jobs: int) -> Judge:
        """Open a Judge that asks a command of the user's."""

    def fresh(
        self,
        script: Path,
        phase: Phase,
        *,
        python: str,
        environment: Mapping[str, str],
        deadline: float,
        eager: bool = False,
        stopped: Callable[[], bool] = lambda: False,
        at_once: int = 1,
    ) -> Outcome:
        """Run a script in a fresh interpreter that cannot import torchsleuth."""

    def watch(
        self,
        command: Sequence[str],
        session: Path,
        options: Options,
        *,
        extra: Mapping[str, str] | None = None,
        tick: Callable[[], bool] | None = None,
    ) -> Ended:
        """Run the user's program in the foreground; what it reports is in `session` afterwards."""

    def start(self, launch: Launch) -> Running:
        """Start a command under guard: the program once more, or the eager probe of a Case."""

    def write_data(
        self, python: str, environment: Mapping[str, str], home: Path, target: Path, tensors: Mapping[str, Any]
    ) -> str:
        """Write tensors of the Case in `home` to `target`; return what went wrong, or an empty string."""

    def versions(self, python: str, environment: Mapping[str, str]) -> str:
        """Return the version of torch that an interpreter has, and then the version of that interpreter."""

    def now(self) -> float:
        """Seconds on the clock that decides how often the best so far is verified; only differences count."""


class LocalEngines:
    """Starts processes on this machine."""

    def open_judge(
        self,
        devices: Collection[str],
        *,
        python: str,
        environment: Mapping[str, str],
        scratch: Path,
        path: Sequence[str] = (),
        jobs: int = 2,
    ) -> Judge:
        return open_judge(devices, python=python, environment=environment, scratch=scratch, path=path, jobs=jobs)

    def open_check(self, command: str, jobs: int) -> Judge:
        return CommandJudge(command, jobs)

    def fresh(
        self,
        script: Path,
        phase: Phase,
        *,
        python: str,
        environment: Mapping[str, str],
        deadline: float,
        eager: bool = False,
        stopped: Callable[[], bool] = lambda: False,
        at_once: int = 1,
    ) -> Outcome:
        return run_fresh(
            script,
            phase,
            python=python,
            environment=environment,
            deadline=deadline,
            eager=eager,
            stopped=stopped,
            at_once=at_once,
        )

    def watch(
        self,
        command: Sequence[str],
        session: Path,
        options: Options,
        *,
        extra: Mapping[str, str] | None = None,
        tick: Callable[[], bool] | None = None,
    ) -> Ended:
        return launcher.run(command, session, options, extra=extra, tick=tick)

    def start(self, launch: Launch) -> Running:
        return Guarded(launch)

    def write_data(
        self, python: str, environment: Mapping[str, str], home: Path, target: Path, tensors: Mapping[str, Any]
    ) -> str:
        done = subprocess.run(
            [python, "-m", "torchsleuth.case.datafile", str(home), str(target)],
            input=json.dumps(tensors),
            text=True,
            capture_output=True,
            env=dict(environment),
            check=False,
        )
        return f"the data could not be written: {done.stderr.strip()[-300:]}" if done.returncode else ""

    def versions(self, python: str, environment: Mapping[str, str]) -> str:
        return ask_versions(python, environment)

    def now(self) -> float:
        return time.monotonic()


LOCAL: Engines = LocalEngines()
