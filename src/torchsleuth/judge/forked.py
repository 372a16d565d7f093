"""The Judge for Linux: trials are forked from one warm process, which takes milliseconds, not seconds."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from torchsleuth.errors import JudgeBroken
from torchsleuth.judge.conduct import Conductor
from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.order import Order, read_tail

_PATIENCE = 0.8  # seconds for the zygote to end its trials before it is killed itself


class ForkedJudge(Conductor):
    """`environment` comes from `judge_environment`; `path` are entries of sys.path that the program had."""

    _warm_for: tuple[str, ...] = ()  # arguments of the zygote

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        path: Sequence[str] = (),
        jobs: int = 2,
        *,
        scratch: Path,
    ) -> None:
        super().__init__(scratch, jobs)
        self._python = python
        self._environment = with_torchsleuth(environment, path)
        self._starting = threading.Lock()
        self._zygote = self._start()

    def close(self) -> None:
        self.cancel()
        self._zygote.close()
        super().close()

    def _start(self) -> _Zygote:
        return _Zygote(self._python, self._warm_for, self._environment, self.scratch)

    def _perform(self, order: Order) -> None:
        with self._starting:
            if self._zygote.ended and (self._zygote.was_ready or self._zygote.killed):
                self._zygote.close()
                self._zygote = self._start()
            zygote = self._zygote
        zygote.perform(order)
        if zygote.ended and not (zygote.was_ready or zygote.killed):
            raise JudgeBroken(
                f"The judge could not start under {self._python}. Check that this interpreter imports torch. "
                f"It said:\n{read_tail(zygote.log, 2000)}"
            )

    def _end_all(self) -> None:
        if not self._zygote.cancel(_PATIENCE):
            self._zygote.kill()


class _Zygote:
    """The client's end of one zygote process: orders out, endings in, by a thread that listens."""

    def __init__(self, python: str, warm_for: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        self.was_ready = False
        self.killed = False  # by us: what it was asked is cancelled, and another one may be started
        self.log = str(scratch / "zygote.log")
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._ids = itertools.count(1)
        self._over = False
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [python, "-m", "torchsleuth.judge.zygote", *warm_for],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment),
                cwd=scratch,
                start_new_session=True,  # Ctrl-C at the terminal is the client's to handle
            )
        self._listener = threading.Thread(target=self._listen, name="zygote-listener", daemon=True)
        self._listener.start()

    @property
    def ended(self) -> bool:
        return self._over

    def perform(self, order: Order) -> None:
        with self._changed:
            number = next(self._ids)
            self._waiting.add(number)
            self._send({"id": number, "order": asdict(order)})
            self._changed.wait_for(lambda: self._over or number not in self._waiting)

    def cancel(self, patience: float) -> bool:
        """Whether everything in flight ended in time."""
        with self._changed:
            if self._waiting:
                self._send({"cancel": True})
            if not self.was_ready and self._waiting:
                return False  # it answers only once it is warm
            return self._changed.wait_for(lambda: self._over or not self._waiting, patience)

    def kill(self) -> None:
        self.killed = True
        self._process.kill()
        self._listener.join(5.0)

    def close(self) -> None:
        with self._changed:
            if self._process.stdin and not self._process.stdin.closed:
                _close_quietly(self._process)
        try:
            # A zygote that still imports does not look at its standard input; there is nothing below it to clean up.
            self._process.wait(10.0 if self.was_ready else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(5.0)
        if self._process.stdout:
            self._process.stdout.close()

    def _send(self, request: dict[str, object]) -> None:
        pipe = self._process.stdin
        try:
            if pipe and not pipe.closed:
                pipe.write(json.dumps(request).encode() + b"\n")
                pipe.flush()
        except BrokenPipeError:
            return  # it is dead, which the listener sees too

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._changed:
                self.was_ready = True
                self._waiting.discard(answer.get("ended", 0))
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()


def _close_quietly(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        return  # what was still to be flushed went to a dead process
