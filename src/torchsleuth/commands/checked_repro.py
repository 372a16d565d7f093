"""The script of a `--check` reduction: in place from the beginning, replaced by each smaller one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case
from torchsleuth.case.program import Rendering, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim
from torchsleuth.investigate.checkpoints import Checkpoints, Pace
from torchsleuth.investigate.published import publish
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Verdict
from torchsleuth.reduce.journal import Journal
from torchsleuth.write.findings import Repro

_FIRST = (0,)  # the attempt that was judged
_ALL = (0, 1, 2)
_COST_OF_DATA = 2.0  # seconds, about: a process that imports torch and writes the file


class Placing:
    """What the check was seen to find takes the place of what stood there."""

    def __init__(
        self, bench: Bench, journal: Journal, out: Path, home: Path, check: str, say: Callable[[str], None]
    ) -> None:
        self._bench = bench
        self._journal = journal
        self._out = out
        self._check = check
        self._checkpoints = Checkpoints(bench, say, home)
        self._pace: Pace | None = None  # of scripts with data

    def better(self, case: Case, way: Way) -> None:
        """A Case that is smaller or simpler, which the check found to fail."""
        self._journal.note_smaller(case)
        rendering = render(case, way.form, data=way.data)
        self._checkpoints.write(case, way, rendering.source)
        if not rendering.data:
            self._publish(rendering, way)
            return
        ops = operators(case.graph)
        if self._pace is None:
            self._pace = Pace(_COST_OF_DATA, ops, now=self._bench.engines.now)
        elif not self._pace.due(ops):
            return
        with self._pace.spending(ops):
            self._publish(rendering, way)

    def written(self, case: Case, way: Way, *, asked_again: bool) -> Repro:
        """The last script, and what the check says of it: once more in two more runs, where there is time for them."""
        rendering = render(case, way.form, data=way.data)
        text, size = self._publish(rendering, way)
        attempts = _ALL if asked_again else _FIRST
        tried = self._bench.try_again(case, way.home, way.form, attempts, data=way.data)
        failed = sum(one.outcome.verdict is Verdict.FAILED for one in tried)
        reason = "" if failed == len(tried) else f"the check said so in {failed} of {len(tried)} runs"
        return Repro(
            self._out / "repro.py", text, way.form.value, operators(case.graph), rendering.imports, size,
            failed == len(tried), len(tried), failed, reason, claims=tuple(_claims(tried)),
        )  # fmt: skip

    def _publish(self, rendering: Rendering, way: Way) -> tuple[str, int]:
        said = self._check.replace("\\", "/").replace('"""', "'''")
        text = f'"""Reduced for what this command looks for:\n\n    {said}\n"""\n{rendering.source}'
        with tempfile.TemporaryDirectory(prefix="torchsleuth-draft-") as draft:
            data = Path(draft) / DATA_FILE
            if rendering.data:
                self._bench.write_data(rendering, way.home, data)
            return publish(text, data, self._out)


def _claims(tried: Sequence[Tried]) -> Iterator[Claim]:
    """Say in how many runs the check finds what it looks for."""
    backing = [one.judgement for one in tried if one.judgement is not None and one.judgement.match is Match.SAME]
    if backing:
        text = f"The check finds it in {len(backing)} of {len(tried)} runs."
        yield claim(ClaimKind.FAILS, Topic.REPRO, "repro.py", text, *backing)
