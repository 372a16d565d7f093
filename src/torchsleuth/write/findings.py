"""What is known of a failure in the end: the facts that every page is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import Source
from torchsleuth.locate.ablation import Row
from torchsleuth.locate.inside import Located
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.reduce.chance import ALWAYS, Chance


@dataclass(frozen=True)
class Culprit:
    op: str | None = None
    compiler_pass: str | None = None
    source: Source | None = None


@dataclass(frozen=True)
class Repro:
    """A script, and the record of its verification."""

    path: Path
    source: str
    form: str
    ops: int
    imports: tuple[str, ...]
    data_bytes: int  # of the file beside it
    verified: bool
    runs: int
    failed_runs: int
    reason: str = ""  # why it is not verified
    undecided: bool = False  # not verified, and some runs passed: it may come and go
    source_lines: int = 0  # of the user's own source

    @property
    def lines(self) -> int:
        return len(self.source.splitlines())


@dataclass(frozen=True)
class Finding:
    id: str
    failure: Failure
    component: Component = Component.UNKNOWN
    culprit: Culprit = Culprit()
    rungs: tuple[Rung, ...] = ()
    case: Path | None = None
    repro: Repro | None = None
    ops_before: int = 0
    judged: int = 0
    judged_to_smallest: int | None = None  # None: never reduced
    seconds: float = 0.0
    swallowed: bool = False
    eager_fails_too: bool = False
    why_not: str = ""  # what stood in the way of a repro
    versions: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # what the Case could not keep
    workaround: str | None = None  # text to paste, seen to help on the user's own Case
    needed: tuple[str, ...] = ()  # each of which is needed to trigger it
    varies: tuple[str, ...] = ()  # sentences: what may be otherwise, and what may not
    chance: Chance = ALWAYS  # of failing, judged alone
    divergence: tuple[tuple[str, float, float], ...] = ()  # wrong results: operator, error of compiled, of eager
    inside: Located | None = None  # which application inside the compiler is to blame
    judged_inside: int = 0
    ablation: tuple[Row, ...] = ()  # finer rungs: what was switched off on its own
    neighbour: str = ""  # how the nearest script that passes differs

    @property
    def reproduced(self) -> bool:
        return self.repro is not None and self.repro.verified
