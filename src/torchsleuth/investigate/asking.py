"""Judge variants of one Case: often enough for a flaky failure, and not at all once the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Backend, Case
from torchsleuth.judge.bench import Bench, Tried, Way
from torchsleuth.judge.judgement import Judged
from torchsleuth.judge.match import Match, combine
from torchsleuth.reduce.chance import Chance


@dataclass(frozen=True)
class Asker:
    """Answers about variants of a Case; what was not judged is UNKNOWN."""

    bench: Bench
    way: Way
    chance: Chance
    time_left: Callable[[], bool]

    def judge(self, cases: Sequence[Case], changes: Sequence[str] = ()) -> list[Judged]:
        """Judge each Case; `changes` says in a phrase each how they differ."""
        return [self._judged(runs) for runs in self.runs(cases, changes)]

    def runs(self, cases: Sequence[Case], changes: Sequence[str] = ()) -> list[list[Tried]]:
        """Judge each Case until it fails in the same way, or as often as it takes to believe that it passes."""
        seen: list[list[Tried]] = [[] for _ in cases]
        for attempt in range(self.chance.repeats):
            left = [n for n, runs in enumerate(seen) if not any(self._match(t) is Match.SAME for t in runs)]
            if not left or not self.time_left():
                break
            tried = self.bench.try_cases(
                [cases[n] for n in left],
                self.way.home,
                self.way.form,
                data=self.way.data,
                attempt=attempt,
                changes=[changes[n] for n in left] if changes else (),
            )
            for number, one in zip(left, tried, strict=True):
                seen[number].append(one)
        return seen

    def on_backends(self, case: Case, backends: Sequence[Backend]) -> list[list[Tried]]:
        cases = [replace(case, surroundings=replace(case.surroundings, backend=b)) for b in backends]
        answers = self.runs(cases, [f'backend="{b.name}"' for b in backends])
        for tried in (one for runs in answers for one in runs):
            self.bench.keep(tried)  # with its data: a sentence about each backend rests on it
        return answers

    def _match(self, tried: Tried) -> Match:
        return tried.judgement.match if tried.judgement is not None else Match.UNKNOWN

    def _judged(self, runs: Sequence[Tried]) -> Judged:
        """Combine the runs of one Case; fewer than were needed say nothing, unless one failed in the same way."""
        found = combine(self._match(t) for t in runs) if runs else Match.UNKNOWN
        if found is not Match.SAME and len(runs) < self.chance.repeats:
            return Judged(Match.UNKNOWN)
        backing = [t for t in runs if self._match(t) is found and t.judgement is not None]
        for tried in backing:
            self.bench.keep(tried)
        return Judged(found, tuple(t.judgement for t in backing if t.judgement is not None))
