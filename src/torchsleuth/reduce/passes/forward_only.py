"""The forward alone, where the same failure shows there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.failure import Phase
from torchsleuth.case.model import Case


def propose(case: Case) -> Iterator[Case]:
    if case.phase.backward:
        yield replace(case, phase=Phase.COMPILE_FORWARD if case.phase.compiling else Phase.RUN_FORWARD)
