"""How one run of the program ended, and whether another run ended in the same way.

An exit status alone decides nothing: a program that finds its port in use, or its output folder there already, ends
with the same status as one that fails in compiled code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Kind, normalise, signal_name
from torchsleuth.judge.match import Match
from torchsleuth.watch.found import Summary, died
from torchsleuth.watch.uncaught import Uncaught

_LAST_BYTES = 4096
_LEAST_QUOTE = 20  # characters of a message that identify it inside another
_DIFFERENCE = re.compile(r"(?:Greatest a|A)bsolute difference: (\S+)")


@dataclass(frozen=True)
class ProgramEnd:
    """status: of the command, negative for a signal; None: it was not seen to end.
    error: the uncaught exception.
    failures: what the watcher saw fail, caught by the program or not.
    graphs: how many were captured.
    last_line: of standard output and error; None: not recorded, as in the user's own terminal.
    """

    status: int | None
    error: Uncaught | None = None
    failures: tuple[Failure, ...] = ()
    graphs: int = 0
    last_line: str | None = None

    @staticmethod
    def of(summary: Summary, output: Path | None = None) -> ProgramEnd:
        failures = tuple(found.failure for found in summary.found)
        line = _last_line(output) if output is not None else None
        return ProgramEnd(summary.exit_code, summary.error, failures, summary.graphs, line)

    @property
    def text(self) -> str:
        """A part of a sentence."""
        if self.status is None:
            return "did not end in time"
        if self.status < 0:
            return f"was ended by {signal_name(-self.status)}"
        said = self.error.text.splitlines()[0] if self.error is not None else self.last_line
        shown = (said or "").rstrip(": ")[:200]
        return f"ended with {self.status}" + (f" ({shown})" if shown and self.status else "")

    @property
    def difference(self) -> float | None:
        """The greatest absolute difference that an assertion of torch.testing reports."""
        found = _DIFFERENCE.search(self.error.text) if self.error is not None else None
        try:
            return float(found.group(1)) if found is not None else None
        except ValueError:
            return None

    def shows(self, failure: Failure) -> bool:
        """Whether this failure was seen in the run, or ended it."""
        if any(_same_failure(one, failure) for one in self.failures):
            return True
        return self.error is not None and self.status != 0 and _is_error_of(self.error, failure)


def match(first: ProgramEnd, rerun: ProgramEnd, failure: Failure | None = None) -> Match:
    """Compare the end of a rerun with that of the first run; `failure` is what is looked for, where it is known."""
    if failure is not None and rerun.shows(failure):
        return Match.SAME
    if rerun.status is None:
        return Match.UNKNOWN
    if rerun.status == 0:
        return Match.PASSED
    if first.error is not None or rerun.error is not None:
        return Match.SAME if _same_error(first, rerun) else Match.OTHER
    if rerun.status != first.status:
        return Match.OTHER
    if died(rerun.status):
        return Match.SAME
    if first.last_line is None or rerun.last_line is None:
        return Match.UNKNOWN
    return Match.SAME if normalise(first.last_line) == normalise(rerun.last_line) else Match.OTHER


def repeated(first: ProgramEnd, unchanged: ProgramEnd, failure: Failure | None = None) -> Match:
    """`match`, for the unchanged program: where nobody recorded what it wrote, it has to capture as many graphs."""
    found = match(first, unchanged, failure)
    if found is not Match.UNKNOWN or unchanged.status is None:
        return found
    got_as_far = bool(first.graphs) and unchanged.graphs >= first.graphs
    return Match.SAME if got_as_far else Match.UNKNOWN


def with_output_of(first: ProgramEnd, unchanged: ProgramEnd) -> ProgramEnd:
    """The first end, with what only a rerun could record."""
    return replace(first, last_line=first.last_line or unchanged.last_line)


def _same_error(first: ProgramEnd, rerun: ProgramEnd) -> bool:
    if first.error is None or rerun.error is None:
        return False
    return first.error.same_as(rerun.error) or any(_quotes(failure, rerun.error) for failure in first.failures)


def _same_failure(one: Failure, other: Failure) -> bool:
    if one.kind is Kind.HANG or other.kind is Kind.HANG:
        return one.kind is other.kind
    return one.fingerprint.same_as(other.fingerprint)


def _is_error_of(error: Uncaught, failure: Failure) -> bool:
    """A failure of wrong numbers has no exception of its own."""
    if failure.kind is Kind.ACCURACY:
        return False
    identifies = bool(error.fingerprint.message or error.fingerprint.frames)
    return (identifies and error.fingerprint.same_as(failure.fingerprint)) or _quotes(failure, error)


def _quotes(failure: Failure, error: Uncaught) -> bool:
    """Dynamo and AOTAutograd report an error of the user's code inside one of their own."""
    message = error.fingerprint.message
    name = error.fingerprint.error.rpartition(".")[2]
    return len(message) >= _LEAST_QUOTE and name in failure.text and message in _normalised(failure.text)


def _normalised(text: str) -> str:
    return " ".join(normalise(line) for line in text.splitlines())


def _last_line(output: Path) -> str:
    try:
        with output.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LAST_BYTES))
            tail = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in tail.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
