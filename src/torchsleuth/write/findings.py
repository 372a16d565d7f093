"""What is known of a failure in the end: the facts that every page is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import Source
from torchsleuth.diagnose.claim import Claim
from torchsleuth.locate.inside import Located
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.reduce.chance import ALWAYS, Chance


@dataclass(frozen=True)
class Culprit:
    """The operator to blame, the step inside the compiler, and the user's line."""

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
    undecided: bool = False  # not verified, and some runs passed: it may be flaky
    claims: tuple[Claim, ...] = ()  # what its verification shows
    source_lines: int = 0  # of the user's own source

    @property
    def lines(self) -> int:
        return len(self.source.splitlines())


@dataclass(frozen=True)
class Finding:
    """A failure, the Claims made of it, and what is not known."""

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
    eager_fails_too: bool = False  # the program, or its Case, was seen to fail with compilation off
    why_not: str = ""  # what stood in the way of a repro
    versions: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # what the Case could not keep
    workaround: str | None = None  # code to paste or what to remove, seen to help the user's own Case or program
    claims: tuple[Claim, ...] = ()  # every sentence about what fails, passes, is needed, helps or is to blame
    not_known: tuple[str, ...] = ()  # what was not judged, or not decided by what was
    lines: tuple[Source, ...] = ()  # of the user's, where the operators of the repro come from
    judged_with: Mapping[str, str] = field(default_factory=dict)  # versions of what judged it
    chance: Chance = ALWAYS  # of failing, judged alone
    divergence: tuple[tuple[str, float, float], ...] = ()  # wrong results: operator, error of compiled, of eager
    inside: Located | None = None  # which application inside the compiler is to blame
    judged_inside: int = 0
    neighbour: str = ""  # the nearest script that passes, as a difference: - fails, + passes

    @property
    def reproduced(self) -> bool:
        return self.repro is not None and self.repro.verified
