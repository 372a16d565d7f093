"""What became of a function: compiled whole, in pieces, not at all, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from torchsleuth.explain.compiles import Compile


class Outcome(Enum):
    COMPILED = "compiled"
    BROKEN = "broken"
    EAGER = "eager"
    FAILED = "failed"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Ends:
    """How the compilations of one function ended."""

    succeeded: int
    failed: int
    not_known: int  # torch wrote no end of them, or what it wrote cannot be read
    after_reset: int  # begun after torch._dynamo.reset() had forgotten an earlier one of the function


def ends_of(members: Sequence[Compile]) -> Ends:
    lost = [c for c in members if is_not_known(c)]
    return Ends(
        sum(c.compiled and c not in lost for c in members),
        sum(has_failed(c) for c in members),
        len(lost),
        sum(c.again > 0 for c in members if c.resumed_at is None),
    )


def outcome_of(members: Sequence[Compile]) -> Outcome:
    if any(has_failed(c) for c in members):
        return Outcome.FAILED
    if any(c.met.gave_up for c in members if c.met is not None):
        return Outcome.EAGER
    if any(is_not_known(c) for c in members):
        return Outcome.NOT_KNOWN
    if not any(c.compiled for c in members):
        return Outcome.EAGER
    return Outcome.BROKEN if any(c.met for c in members) else Outcome.COMPILED


def has_failed(compile: Compile) -> bool:
    """Ended with an error.  A graph break is one only where the program asked for a single graph."""
    if not compile.failed or compile.limit_hit:
        return False
    return not compile.failed.startswith("Unsupported") or compile.met is None


def is_not_known(compile: Compile) -> bool:
    """No end of it was seen, and no break that explains why; or a record of it could not be read."""
    if compile.unread:
        return True
    return not compile.ended and not compile.failed and (compile.met is None or not compile.met.gave_up)
