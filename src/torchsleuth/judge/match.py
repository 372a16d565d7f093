"""Decide whether a run of a candidate shows the failure that is looked for.

This is the only place that compares two ends.  The reducer, the ladder, the bisection, verification, the reduction of
source and the grouping of failures all ask `match`; what counts as the same is one table by kind of failure.

UNKNOWN is a value of its own.  It is never read as "does not fail": it becomes no sentence and shrinks no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from torchsleuth.case.failure import Failure, Kind
from torchsleuth.judge.outcome import Outcome, Verdict, is_killed_for_memory, short_of_same_memory


class Match(str, Enum):
    """The answer to "is this the failure that is looked for?"."""

    SAME = "same"
    OTHER = "other"  # it failed, in another way
    PASSED = "passed"
    INVALID = "invalid"  # eager itself fails, or no script can hold it
    UNKNOWN = "unknown"  # nothing was learned


@dataclass(frozen=True)
class Target:
    """The failure that is looked for."""

    failure: Failure


def match(outcome: Outcome, target: Target) -> Match:
    """Compare the outcome of one run with the target."""
    if outcome.verdict is Verdict.FAILED:
        if outcome.failure is None:
            return Match.UNKNOWN
        return Match.SAME if is_same(outcome.failure, target.failure) else Match.OTHER
    return _WITHOUT_FAILURE[outcome.verdict]


def combine(matches: Iterable[Match]) -> Match:
    """Summarize several runs of one candidate: SAME if any is, PASSED only if every run passed."""
    seen = set(matches)
    if Match.SAME in seen:
        return Match.SAME
    return seen.pop() if len(seen) == 1 else Match.UNKNOWN


def is_same(seen: Failure, wanted: Failure) -> bool:
    """Return whether `seen` is the same bug as `wanted`, by the rule for the kind that is wanted."""
    rule = _same_lack_of_memory if is_killed_for_memory(wanted) else _RULES[wanted.kind]
    return rule(seen, wanted)


def _same_error(seen: Failure, wanted: Failure) -> bool:
    return seen.kind is not Kind.ACCURACY and seen.fingerprint.same_as(wanted.fingerprint)


def _same_lack_of_memory(seen: Failure, wanted: Failure) -> bool:
    return short_of_same_memory(seen, wanted)


def _same_crash(seen: Failure, wanted: Failure) -> bool:
    """Compare signals; where the program's signal was not seen, any crash counts."""
    return seen.kind is Kind.CRASH and wanted.fingerprint.error in ("crash", seen.fingerprint.error)


def _same_hang(seen: Failure, wanted: Failure) -> bool:
    return seen.kind is Kind.HANG


def _same_wrong_numbers(seen: Failure, wanted: Failure) -> bool:
    """Compare how the numbers are wrong: values, nan, dtype, shape, stride or type."""
    return seen.kind is Kind.ACCURACY and seen.fingerprint.message == wanted.fingerprint.message


_RULES: Mapping[Kind, Callable[[Failure, Failure], bool]] = {
    Kind.COMPILE_ERROR: _same_error,
    Kind.RUNTIME_ERROR: _same_error,
    Kind.DYNAMO_ERROR: _same_error,
    Kind.OUT_OF_MEMORY: _same_lack_of_memory,
    Kind.CRASH: _same_crash,
    Kind.HANG: _same_hang,
    Kind.ACCURACY: _same_wrong_numbers,
}
_WITHOUT_FAILURE = {
    Verdict.PASSED: Match.PASSED,
    Verdict.INVALID: Match.INVALID,
    Verdict.UNKNOWN: Match.UNKNOWN,
}
