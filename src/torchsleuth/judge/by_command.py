"""A Judge that asks a command of the user's: its exit status says whether a script still fails, as for git bisect.

0: the failure is gone; 1 to 124: it is still there; 125: nothing can be said.  Anything else is a fault of the command.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.errors import BadUsage
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.limits import default_memory_limit
from torchsleuth.judge.order import Cause, Ending, read_tail
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial

_PLACE = "{}"
_SKIP = 125
_LOOK_EVERY = 0.2


def failure_of(command: str) -> Failure:
    """What the command looks for: nobody but the command knows more of it."""
    return Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("check", command), summary=f"check: {command}")


class CommandJudge:
    """Runs the command in a shell, in the user's own folder and environment; `{}` stands for the script's path."""

    def __init__(self, command: str, jobs: int = 1) -> None:
        if not command.strip():
            raise BadUsage("--check needs a command, such as --check 'python check.py {}'.")
        self.jobs = jobs
        self.judged = 0
        self._command = command
        self._failure = failure_of(command)
        self._here = os.getcwd()
        self._lock = threading.Lock()
        self._era = 0

    def judge(self, trial: Trial) -> Outcome:
        return self.judge_all([trial])[0]

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        era, todo = self._era, list(trials)
        at_once = max(1, min(self.jobs, len(todo)))

        def judge(number: int, trial: Trial) -> Outcome:
            outcome = self._judge(trial, era, at_once)
            if heard is not None:
                heard(number, outcome)
            return outcome

        with ThreadPoolExecutor(self.jobs, "check") as pool:
            return list(pool.map(judge, range(len(todo)), todo))

    def cancel(self) -> None:
        self._era += 1

    def close(self) -> None:
        self.cancel()

    def __enter__(self) -> CommandJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _judge(self, trial: Trial, era: int, at_once: int) -> Outcome:
        trial.script.write_text(trial.source, encoding="utf-8")
        output, ending = trial.folder / "said.txt", trial.folder / "ending.json"
        path = shlex.quote(str(trial.script.resolve()))
        text = self._command.replace(_PLACE, path) if _PLACE in self._command else f"{self._command} {path}"
        limits = Limits(trial.deadline, default_memory_limit(at_once))
        process = Guarded(Launch(("sh", "-c", text), dict(os.environ), self._here, str(output), limits, str(ending)))
        while not process.wait(_LOOK_EVERY) and era == self._era:
            pass
        process.stop()
        process.wait()
        with self._lock:
            self.judged += 1
        return self._outcome(Ending.read(str(ending)), output)

    def _outcome(self, ending: Ending | None, output: Path) -> Outcome:
        if ending is None or ending.cause is Cause.CANCELLED:
            return Outcome(Verdict.UNKNOWN, reason="cancelled")
        said = read_tail(str(output), 2000).strip()
        if ending.cause is not Cause.EXITED:
            reason = f"the check did not end in time or took too much memory ({ending.cause.value})"
            return Outcome(Verdict.UNKNOWN, reason=reason, seconds=ending.seconds, output=said)
        if ending.status == 0:
            return Outcome(Verdict.PASSED, seconds=ending.seconds, output=said)
        if 1 <= ending.status < _SKIP:
            return Outcome(Verdict.FAILED, self._failure, said[-200:], ending.seconds, output=said)
        if ending.status == _SKIP:
            return Outcome(Verdict.INVALID, reason="the check cannot say", seconds=ending.seconds, output=said)
        raise BadUsage(
            f"The check {self._command!r} ended with status {ending.status}, which says nothing about the script: "
            "0 means that the failure is gone, 1 to 124 that it is still there, 125 that it cannot say. "
            f"{_hint(ending)}It said: {said[-400:] or 'nothing'}"
        )


def _hint(ending: Ending) -> str:
    if ending.status == 127:
        return "A status of 127 is the shell's word for a command that it does not find. "
    if ending.status == 126:
        return "A status of 126 is the shell's word for a file that cannot be executed. "
    return ""
