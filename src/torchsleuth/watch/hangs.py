"""A program that does not end, seen from outside.

The program's own watchdog keeps a Case of a stage that lasts too long; where the interpreter itself is stuck (native
code that holds its lock), the sketch made before the stage serves.  Whether it is a hang is for a Judge to say: until
the Case, run alone, has not ended either, the program is left to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torchsleuth.case.failure import Phase, of_hang
from torchsleuth.errors import SleuthError
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process, processes

_LOOK_EVERY = 2.0
_STUCK_AFTER = 30.0  # seconds beyond the watchdog's time, before the interpreter is believed to be stuck


class HangWatch:
    def __init__(self, session: Path, hang_after: float, confirm: Callable[[Found], bool] | None = None) -> None:
        self._session = session
        self._hang_after = hang_after
        self._confirm = confirm
        self._next = time.monotonic() + _LOOK_EVERY
        self._asked: set[str] = set()
        self._pool = ThreadPoolExecutor(1, "hang-judge")
        self._answer: Future[bool] | None = None

    def tick(self) -> bool:
        """Whether the program is seen to hang, now.  Never waits: a Judge is asked in a thread of its own."""
        if self._hang_after <= 0 or self._confirm is None or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _LOOK_EVERY
        if self._answer is not None:
            if not self._answer.done():
                return False
            confirmed, self._answer = self._confirmed(self._answer), None
            if confirmed:
                return True
        for suspect in self._suspects():
            key = f"{suspect.process.folder} {suspect.case}"
            if key not in self._asked:
                self._asked.add(key)
                self._answer = self._pool.submit(self._confirm, suspect)
                break
        return False

    def _confirmed(self, answer: Future[bool]) -> bool:
        try:
            return answer.result()
        except (SleuthError, OSError) as error:
            # Nobody can say; the program goes on.
            with (self._session / "trouble.log").open("a", encoding="utf-8") as log:
                log.write(f"a suspected hang could not be judged: {error}\n")
            return False

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _suspects(self) -> list[Found]:
        found = []
        for process in processes(self._session):
            if process.ended:
                continue
            events = process.of("suspect")
            for event in events:
                found.append(_found(process, Phase(event["failure"]["phase"]), Path(event["case"])))
            stage = process.stage
            if not events and stage.phase and time.time() - stage.since > 2 * self._hang_after + _STUCK_AFTER:
                found.append(_found(process, Phase(stage.phase), _sketch(process)))
        return found

    def interrupted(self) -> tuple[Found, ...]:
        """What was under way when the user lost patience."""
        return tuple(
            _found(p, Phase(p.stage.phase), _sketch(p))
            for p in processes(self._session)
            if p.stage.phase and not p.of("suspect")
        )


def _sketch(process: Process) -> Path:
    return process.folder / "sketches" / str(process.stage.graph)


def _found(process: Process, phase: Phase, case: Path) -> Found:
    return Found(of_hang(phase), case if case.is_dir() else None, process, ended_program=True, suspect=True)
