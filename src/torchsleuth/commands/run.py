"""What one run of the tool is given, and what it has seen of the program when that has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.commands.interruption import Interruption
from torchsleuth.investigate.own_faults import Faults
from torchsleuth.investigate.rerun import Again
from torchsleuth.judge.engines import LOCAL, Engines
from torchsleuth.judge.match import Match
from torchsleuth.reduce.journal import Journal
from torchsleuth.watch.found import Summary
from torchsleuth.watch.launcher import Ended

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    out: Path | None = None
    budget: float = 600.0
    jobs: int = 2
    minimize: bool = True
    keep_going: bool = False
    rerun: bool = True
    hang_after: float = 60.0
    capture: str = "auto"  # "1": only keep what fails; "2": as auto; "3": keep every graph before it runs
    numbers: bool = False  # compare every graph with eager at once
    journal: Path | None = None  # of the Case that was named, to go on from
    log: str = ""  # "steps" or "debug"
    locate: bool = False  # look inside the compiler even where nothing is reduced
    engines: Engines = LOCAL  # what runs the program and judges


@dataclass(frozen=True)
class Run:
    command: tuple[str, ...]  # as it was typed
    out: Path
    settings: Settings
    say: Say
    interruption: Interruption
    faults: Faults
    again: Again | None = None  # None: the program is not to be run once more
    known: Journal | None = None  # what was judged while the program ran

    @staticmethod
    def of(command: Sequence[str], out: Path, settings: Settings, say: Say, interruption: Interruption) -> Run:
        return Run(tuple(command), out, settings, say, interruption, Faults(out))

    @property
    def session(self) -> Path:
        return self.out / "logs" / "watch"


@dataclass(frozen=True)
class Seen:
    """Of the program."""

    summary: Summary
    ended: Ended
    notes: tuple[str, ...] = ()
    in_eager: Match = Match.UNKNOWN  # how the program ended with compilation off, compared with this run
