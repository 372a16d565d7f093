"""A program that does not end, seen from outside.

The program's own watchdog keeps a Case of a stage that lasts too long; where the interpreter itself is stuck (native
code that holds its lock), the sketch made before the stage serves.  Whether it is a hang is for a Judge to say: until
the Case, run alone, has not ended either, in as much time as the program had, the program is left to go on; and so
it is where it came to the end of that stage meanwhile.

Some hangs cannot be seen alone: a rank that waits in a collective for another rank, a pool of threads that a fork did
not take along.  Such a program hangs where no process of it uses the processor any more, and none has a connection to
another machine, which may be working for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from pathlib import Path

from torchsleuth.case.failure import Phase, of_hang
from torchsleuth.watch.found import Found
from torchsleuth.watch.idle import Idle, waits_for_elsewhere
from torchsleuth.watch.session import Process, processes
from torchsleuth.watch.stages import Stage

_LOOK_EVERY = 2.0
_STUCK_AFTER = 30.0  # seconds beyond the watchdog's time, before the interpreter is believed to be stuck
_GIVEN_UP = 10.0  # seconds that a process was gone before the program was interrupted
_IDLE_AFTER = 60.0  # seconds without any work
_IDLE_BESIDE_A_USER = 300.0  # who may be looking at it in a debugger, and can press Ctrl-C

NOT_ALONE_EITHER = "a Case of it, run alone, did not end either"
NOBODY_WORKS = "it was in compiled code, and no process of it did anything any more"


class Alone(Enum):
    """What a stage that lasts too long does, run alone."""

    HANGS = "hangs"
    ENDS = "ends"
    UNKNOWN = "unknown"  # it could not be run so


class HangWatch:
    def __init__(
        self,
        session: Path,
        hang_after: float,
        confirm: Callable[[Found], Alone] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._session = session
        self._hang_after = hang_after
        self._confirm = confirm
        self._next = now() + _LOOK_EVERY
        self._asked: set[str] = set()
        self._pool = ThreadPoolExecutor(1, "hang-judge")
        self._answer: Future[Alone] | None = None
        self._about = ""
        self._ends_alone: set[str] = set()
        self._not_judged: set[str] = set()  # nothing is known of it, run alone
        self._gone: dict[Path, float] = {}  # processes that were seen to have ended, and when
        self._idle = Idle()
        self.why = ""  # it is seen to hang
        self.hanging: tuple[Found, ...] = ()  # the stages for which it is

    def tick(self) -> bool:
        """Whether the program is seen to hang, now.  Never waits: a Judge is asked in a thread of its own."""
        if self._hang_after <= 0 or self._confirm is None or self._now() < self._next:
            return False
        self._next = self._now() + _LOOK_EVERY
        suspects = self._suspects()
        idle = self._nobody_works() if suspects else False  # asked each time, so that it is known for how long
        if self._answer is not None:
            if not self._answer.done():
                return False
            alone, self._answer = self._heard(self._answer), None
            if alone is Alone.HANGS and self._about in map(_key, suspects):
                return self._hangs(NOT_ALONE_EITHER, [s for s in suspects if _key(s) == self._about])
            (self._ends_alone if alone is Alone.ENDS else self._not_judged).add(self._about)
        if idle:
            ending = [s for s in suspects if _key(s) in self._ends_alone]
            unknown = [s for s in suspects if _key(s) in self._not_judged]
            if ending or (unknown and not waits_for_elsewhere(self._everybody())):
                return self._hangs(NOBODY_WORKS, ending or unknown)
        for suspect in suspects:
            if _key(suspect) not in self._asked:
                self._about = _key(suspect)
                self._asked.add(self._about)
                self._answer = self._pool.submit(self._confirm, suspect)
                break
        return False

    @property
    def judging(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def _hangs(self, why: str, stages: Sequence[Found]) -> bool:
        self.why, self.hanging = why, tuple(stages)
        return True

    def _everybody(self) -> set[int]:
        return {int(p.hello["pid"]) for p in processes(self._session) if not p.gone}

    def _nobody_works(self) -> bool:
        limit = _IDLE_BESIDE_A_USER if sys.stdin is not None and sys.stdin.isatty() else _IDLE_AFTER
        return self._idle.seconds(self._everybody()) > max(limit, self._hang_after)

    def _heard(self, answer: Future[Alone]) -> Alone:
        try:
            return answer.result()
        except Exception as error:  # of ours, or of the machine's: the program must not be ended for it, nor we for it
            with (self._session / "trouble.log").open("a", encoding="utf-8") as log:
                log.write(f"a suspected hang could not be judged: {type(error).__name__}: {error}\n")
            return Alone.UNKNOWN

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _suspects(self) -> list[Found]:
        """Of processes that live: whoever has ended a hanging one by itself went on without it."""
        found = []
        for process in processes(self._session):
            if process.gone:
                self._gone.setdefault(process.folder, time.monotonic())
                continue
            for event in process.suspects:
                phase, lasted = Phase(event["failure"]["phase"]), float(event.get("seconds", 0.0))
                found.append(_found(process, phase, Path(event["case"]), lasted))
            for stage in process.stages if not process.suspects else ():
                lasted = time.time() - stage.since
                if lasted > stage.limit + self._hang_after + _STUCK_AFTER:
                    found.append(_found(process, Phase(stage.phase), _sketch(process, stage), lasted))
        return found

    def interrupted(self) -> tuple[Found, ...]:
        """What was under way when the user lost patience; not what had been given up before."""
        now = time.monotonic()
        return tuple(
            _found(process, Phase(stage.phase), _sketch(process, stage), time.time() - stage.since)
            for process in processes(self._session)
            if not process.suspects and now - self._gone.get(process.folder, now) < _GIVEN_UP
            for stage in process.stages
        )


def _sketch(process: Process, stage: Stage) -> Path:
    return process.folder / "sketches" / str(stage.graph)


def _key(suspect: Found) -> str:
    return f"{suspect.process.folder} {suspect.case}"


def _found(process: Process, phase: Phase, case: Path, seconds: float = 0.0) -> Found:
    kept = case if case.is_dir() else None
    return Found(of_hang(phase), kept, process, ended_program=True, suspect=True, seconds=seconds)
