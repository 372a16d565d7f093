"""Decides which scripts fail as the program did: with how many judgements, and with which random numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import deadline_alone
from torchsleuth.reduce import chance as chances
from torchsleuth.reduce.chance import ALWAYS, Chance
from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source import draws, seeds
from torchsleuth.reduce.source.asserting import asserting
from torchsleuth.reduce.source.bench import Run, ScriptBench

Say = Callable[[str], None]
_ONCE_MORE = (1, 2, 3)  # attempts, where a script that failed in the program passes alone
_PROGRAM_SEEDS = (0, 1, 2)  # tried in the place of the seed that the program does not set
_SEEDS = range(1, 21)  # with each of which a script without a seed must fail: at a rate of 90 %, 12 % get through
_SEEDS_TO_CONFIRM = range(1, 5)  # the same for a script that sets a seed: it may not reach everything that draws


@dataclass(frozen=True)
class Effort:
    """How much may be spent, and who is told of it."""

    until: float  # of time.monotonic
    jobs: int
    minimize: bool
    stopped: Callable[[], bool]
    say: Say
    now: Callable[[], float] = time.monotonic  # decides how often the best so far is verified

    @property
    def spent(self) -> bool:
        return self.stopped() or time.monotonic() > self.until


class Judging:
    """Which texts fail as the program did.  `first` says how, and must be asked before anything else."""

    def __init__(
        self, bench: ScriptBench, failure: Failure, deadline: float, effort: Effort, *, draws_itself: bool
    ) -> None:
        self._bench = bench
        self._failure = failure
        self._deadline = deadline
        self._effort = effort
        self._draws_itself = draws_itself
        self._draws_like_eager = False
        self._whole = ""
        self.chance = ALWAYS
        self.unknown = 0  # scripts of which nothing was learned: without them the result may not be minimal

    @property
    def judged(self) -> int:
        return self._bench.judged

    def first(self, text: str) -> tuple[str, Failure] | None:
        """The text to begin with, and how it fails; None where it does not fail as the program did."""
        outcome = self._outcomes([text])[0]
        if self._failure.kind is Kind.ACCURACY and _fails_otherwise(outcome):
            text, outcome = self._as_assertion(text, outcome)
        seen = outcome.failure
        if self._failure.kind is Kind.ACCURACY and seen is not None and seen.kind is Kind.ACCURACY:
            self._failure = seen  # the program's own assertion says best how its numbers are wrong
        if outcome.verdict is Verdict.PASSED and self._failure.kind is not Kind.HANG:
            outcome = self._once_more(text, outcome)
        if not self._alike(outcome):
            self._effort.say(f"the file alone: {outcome.verdict.value} {outcome.reason}"[:200])
            return None
        assert outcome.failure is not None
        self._failure = outcome.failure if outcome.failure.kind is Kind.ACCURACY else self._failure
        if self._failure.kind is not Kind.HANG:
            self._deadline = deadline_alone(outcome.seconds, self._deadline)
        if self._failure.kind is Kind.ACCURACY and self._draws_itself:
            self._draws_like_eager = self._alike(self._outcomes([draws.judged(text)])[0])
        text = self._with_a_seed(text)
        self._whole = text
        return text, replace(self._failure, text=outcome.failure.text)

    def written(self, text: str) -> str:
        return draws.written(text) if self._draws_like_eager else text

    def fail(self, texts: Sequence[str]) -> list[bool]:
        """Return whether each fails; a flaky failure is judged often enough, and what gave no answer once more."""
        keep = [not self._lost_a_seed(text) for text in texts]
        asked = [text for text, kept in zip(texts, keep, strict=True) if kept]
        found = chances.repeatedly(asked, self.chance.repeats, self._matches)
        left = [place for place, one in enumerate(found) if one is Match.UNKNOWN]
        again = self._matches([asked[place] for place in left], 0) if left else []
        for place, one in zip(left, again, strict=True):
            found[place] = one
        self.unknown += found.count(Match.UNKNOWN)
        answers = iter(found)
        return [kept and next(answers) is Match.SAME for kept in keep]

    def measure(self, text: str) -> Chance:
        """How often a script fails that failed and passed."""
        found = chances.measure(lambda attempts: [self._matches([text], attempt)[0] for attempt in attempts])
        each = "does not fail each time" if found.flaky else "fails each time that it is judged"
        self._effort.say(f"it {each}: {found.failed} of {found.runs} judgements")
        return found

    def without_seed(self, text: str) -> str:
        """The text without its seed where it fails with any; else the text itself."""
        bare = seeds.without_seeds(text) if self._depends_on_values else None
        if bare is None or self.chance.flaky or self._effort.spent:
            return text
        return bare if self._fails_with_each(bare, _SEEDS) else text

    def is_reliable(self, text: str) -> bool:
        """Whether a script that may draw random numbers fails whatever state they start from."""
        if not self.depends_on_luck(text) or self.chance.flaky:
            return True
        return self._fails_with_each(text, _SEEDS_TO_CONFIRM if seeds.seeds_in(text) else _SEEDS)

    def depends_on_luck(self, text: str) -> bool:
        """Whether the script may draw numbers on which its failure may depend."""
        return self._depends_on_values and seeds.may_draw(text)

    @property
    def _depends_on_values(self) -> bool:
        return self._failure.kind in seeds.DEPEND_ON_VALUES

    def _lost_a_seed(self, text: str) -> bool:
        return self._depends_on_values and not self.chance.flaky and seeds.lost_a_seed(text, self._whole)

    def _fails_with_each(self, text: str, numbers: Sequence[int]) -> bool:
        left = list(numbers)
        while left:
            some, left = left[: self._effort.jobs], left[self._effort.jobs :]
            matches = self._matches([seeds.with_seed(text, number) for number in some], 0)
            if any(one is not Match.SAME for one in matches):
                return False
        return True

    def _with_a_seed(self, text: str) -> str:
        """A program that draws numbers without a seed is given one with which it fails, so that it fails each time."""
        if not self._effort.minimize or not self.depends_on_luck(text) or seeds.seeds_in(text):
            return text
        for number in _PROGRAM_SEEDS:
            candidate = seeds.seeded(text, number)
            if self._effort.spent:
                return text
            if self._alike(self._outcomes([candidate])[0]):
                self.chance = self.measure(candidate) if self.chance.flaky else self.chance
                return candidate
        return text

    def _once_more(self, text: str, outcome: Outcome) -> Outcome:
        for attempt in _ONCE_MORE:
            if self._effort.spent:
                return outcome
            again = self._outcomes([text], attempt)[0]
            if self._alike(again):
                self.chance = self.measure(text)
                return again
        return outcome

    def _as_assertion(self, text: str, outcome: Outcome) -> tuple[str, Outcome]:
        """Wrong numbers are told by an assertion; where the program trips over them in torch, by the error it gets."""
        changed = asserting(text)
        asserted = self._outcomes([changed])[0] if changed != text else outcome
        if asserted.failure is not None and asserted.failure.kind is Kind.ACCURACY:
            return changed, asserted
        assert outcome.failure is not None
        self._failure = outcome.failure
        return text, outcome

    def _matches(self, texts: Sequence[str], attempt: int) -> list[Match]:
        if self._effort.spent:
            raise OutOfBudget
        texts = [draws.judged(text) for text in texts] if self._draws_like_eager else list(texts)
        return [match(outcome, Target(self._failure)) for outcome in self._outcomes(texts, attempt)]

    def _alike(self, outcome: Outcome) -> bool:
        return match(outcome, Target(self._failure)) is Match.SAME

    def _outcomes(self, texts: Sequence[str], attempt: int = 0) -> list[Outcome]:
        """All trials of one judge start with the same random state, so each further attempt is given another."""
        texts = [seeds.with_seed(text, attempt) for text in texts] if attempt else texts
        run = Run(self._failure.phase, self._deadline, attempt)
        return self._bench.judge_all(texts, run, Target(self._failure))


def _fails_otherwise(outcome: Outcome) -> bool:
    failure = outcome.failure
    return outcome.verdict is Verdict.FAILED and failure is not None and failure.kind is not Kind.ACCURACY
