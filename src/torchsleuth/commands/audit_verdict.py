"""Compare a Judgement that was made again with the one on record."""

from __future__ import annotations

from collections.abc import Sequence

from torchsleuth.judge.judgement import Judgement
from torchsleuth.judge.match import Match
from torchsleuth.judge.remake import Remade
from torchsleuth.reduce.chance import Chance, interval
from torchsleuth.write.audit_report import Verdict

_DOUBT = 0.02  # of taking a failure that did not show by chance for one that is gone
_OTHERWISE = {
    Match.SAME: "failed in the same way",
    Match.PASSED: "passed",
    Match.OTHER: "failed in another way",
    Match.INVALID: "is not valid",
    Match.UNKNOWN: "was cut short",
}


def compare(recorded: Judgement, remade: Remade, chance: Chance) -> tuple[Verdict, str]:
    """Return whether the Judgement holds, and otherwise what came of it.

    A failure that comes and goes holds when the rate seen is compatible with the recorded one: their 95 % intervals
    overlap.  Where it never failed, that must have been unlikely at the recorded rate: else nothing is known.
    """
    if remade.obstacle:
        return Verdict.NOT_MADE, remade.obstacle
    said = [found for found in remade.matches if found is not Match.UNKNOWN]
    if recorded.match is Match.SAME and chance.flaky and set(said) <= {Match.SAME, Match.PASSED}:
        return _rate(recorded, remade, said, chance)
    if any(found is not recorded.match for found in said):
        return Verdict.DOES_NOT_HOLD, _what_it_gave(remade)
    if len(said) < len(remade.matches) or not said:
        return Verdict.NOT_MADE, remade.reason or "it was not run"
    return Verdict.HOLDS, ""


def _rate(recorded: Judgement, remade: Remade, said: Sequence[Match], chance: Chance) -> tuple[Verdict, str]:
    if len(said) < min(recorded.runs, len(remade.matches)) or not said:
        return Verdict.NOT_MADE, remade.reason or "it was not run often enough"
    failed = said.count(Match.SAME)
    told = f"{chance.failed} of {chance.runs} on record"
    gave = f"failed in the same way in {failed} of {len(said)} runs ({told})"
    if not failed:
        by_luck = (1 - chance.failed / chance.runs) ** len(said)
        return Verdict.DOES_NOT_HOLD if by_luck <= _DOUBT else Verdict.NOT_MADE, gave
    if recorded.runs == 1:
        return Verdict.HOLDS, ""  # one run failed then; it took some to see one fail again
    low, high = interval(failed, len(said))
    lowest, highest = interval(recorded.failed_runs, recorded.runs)
    return (Verdict.HOLDS, "") if low <= highest and lowest <= high else (Verdict.DOES_NOT_HOLD, gave)


def _what_it_gave(remade: Remade) -> str:
    matches = remade.matches
    counts = [f"{matches.count(one)} of {len(matches)} runs {_OTHERWISE[one]}" for one in Match if one in matches]
    shown = ", ".join(counts) if len(matches) > 1 else f"it {_OTHERWISE[matches[0]]}"
    return f"{shown} ({remade.reason})" if remade.reason else shown
