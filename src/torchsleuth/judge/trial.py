"""One question to a Judge: does this script, run alone, fail with compilation on?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case.failure import Phase

_LEAST_DEADLINE = 30.0
_LEAST_ALONE = 10.0
_PATIENCE = 10.0


@dataclass(frozen=True)
class Trial:
    """`source` is written to `folder`/repro.py (over what stands there) and run with `folder` as working directory.

    The deadline holds for each run of the script, eager and compiled, on its own.  `cache_runs=2` runs the compiled
    script in two processes that share one cache folder, and the second counts: some bugs exist only on a cache hit.
    """

    source: str
    folder: Path
    phase: Phase = Phase.RUN_FORWARD
    deadline: float = _LEAST_DEADLINE
    memory_limit: int | None = None  # bytes, of all processes of the trial together; None: a share of what is free
    cache_runs: int = 1

    @property
    def script(self) -> Path:
        return self.folder / "repro.py"


def deadline_alone(seconds: float, longest: float) -> float:
    """For what is smaller than a script that took so long in this judge: what has lost its end is soon let go."""
    return min(longest, max(_LEAST_ALONE, _PATIENCE * seconds))


def deadline_for(first_run_seconds: float) -> float:
    """A deadline that only a hang reaches, given how long the first run took: machines are shared, so be generous."""
    return max(_LEAST_DEADLINE, _PATIENCE * first_run_seconds)
