"""What was asked of a Judge, and a place where its answers are kept: nothing is judged twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from torchsleuth.case import codec
from torchsleuth.case.failure import Kind, Phase
from torchsleuth.case.model import Tensor
from torchsleuth.judge.outcome import Outcome, Verdict


@dataclass(frozen=True)
class Question:
    """A script, the data beside it, and how it is run.  Its key is what makes two questions the same."""

    source: str
    data: Mapping[str, Tensor]
    phase: Phase
    deadline: float  # seconds; not part of the key
    cache_runs: int = 1
    attempt: int = 0  # asked again on purpose: a failure that comes and goes is judged several times

    @cached_property
    def key(self) -> str:
        asked = [self.source, codec.encode(self.data), self.phase.value, self.cache_runs, self.attempt]
        return hashlib.blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).hexdigest()


class Memory(Protocol):
    def recall(self, question: Question) -> Outcome | None: ...

    def keep(self, question: Question, outcome: Outcome) -> None:
        """May be called by several threads at once."""


def lasting(outcome: Outcome) -> bool:
    """Whether it would be said again: a Judge that was cut short has said nothing."""
    return outcome.verdict is not Verdict.UNKNOWN


def holds(outcome: Outcome, given: float, deadline: float) -> bool:
    """Whether an answer that was found with `given` seconds answers the question with `deadline` seconds."""
    if outcome.failure is not None and outcome.failure.kind is Kind.HANG:
        return deadline <= given
    return outcome.seconds <= deadline
