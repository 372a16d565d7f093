"""The smallest program that still has a graph break, or is compiled again, for one cause.

The program's own file is made smaller as for a bug of Dynamo's (from_source); what is asked of each candidate is not
whether it fails but whether torch still tells of that break or of that guard.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.commands.asking import Asking, Cause, shows
from torchsleuth.explain.observed import raised, recorded
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import deadline_alone
from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source.backends import failing_on_recompile, in_one_graph, on_backend
from torchsleuth.reduce.source.layout import laid_out
from torchsleuth.reduce.source.shrink import Shrinker, lines, written
from torchsleuth.reduce.source.whole import imported

_STOPPED = "stopped by Ctrl-C"
_RUNS = 3  # fresh processes that must agree


@dataclass(frozen=True)
class Example:
    path: Path
    text: str
    judged: int
    seconds: float
    raises: bool  # it ends with the break, or the recompilation, as an error


@dataclass(frozen=True)
class Means:
    asking: Asking
    fresh: Callable[[Path], Outcome]  # a script in a process of its own, without torchsleuth
    deadline: float
    jobs: int
    stopped: Callable[[], bool]
    say: Callable[[str], None]


def example(text: str, cause: Cause, path: Path, versions: str, until: float, means: Means) -> Example | str:
    """The script, written to `path`; else why there is none."""
    began = time.monotonic()
    search = _Search(cause, means, until)
    means.say(f"{cause.title}: making the program smaller, {lines(text)}")
    try:
        quick = written(on_backend(ast.parse(text), "eager"))  # Dynamo alone breaks and guards: no kernels are needed
        start = next((t for t in (quick, text) if t is not None and search.show([t])[0]), None)
        if start is None:
            return search.why_not("the program's file, run alone, does not show it")
        shrinker = Shrinker(start, search.show, means.say, means.jobs)
        shrinker.shrink()
    except OutOfBudget:
        return _STOPPED if means.stopped() else "the time was over before it was looked at"
    for small in shrinker.next_best():
        if means.stopped():
            return _STOPPED
        shown = _shown(small, cause, versions, search)
        if shown is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(path, shown[0])
            return Example(path, shown[0], search.judged, time.monotonic() - began, shown[1])
    return search.why_not("what shows it in the program does not show it in every fresh process")


def _shown(small: str, cause: Cause, versions: str, search: _Search) -> tuple[str, bool] | None:
    """As a script that fresh processes agree on, and whether it raises: an error says more than a log."""
    tree = ast.parse(small)
    failing = written(in_one_graph(tree) if cause.is_break else failing_on_recompile(tree))
    for candidate, raises in ((failing, True), (small, False)):
        if candidate is not None:
            script = _docstring(cause, versions, candidate, raises=raises) + laid_out(candidate)
            if all(search.fresh(script, raises=raises) for _ in range(_RUNS)):
                return script, raises
    return None


class _Search:
    """Asks for one cause, within the time that it has."""

    def __init__(self, cause: Cause, means: Means, until: float) -> None:
        self._cause = cause
        self._means = means
        self._until = until
        self._deadline = means.deadline
        self._before = means.asking.judged
        self._cut_short = ""

    @property
    def judged(self) -> int:
        return self._means.asking.judged - self._before

    def why_not(self, seen: str) -> str:
        """`seen`, if the last run came to its end; one that did not has shown nothing."""
        return f"not known whether it shows it alone: {self._cut_short}" if self._cut_short else seen

    def _came_to_end(self, outcome: Outcome) -> bool:
        ended = outcome.verdict is Verdict.PASSED
        error = outcome.failure.summary if outcome.failure is not None else ""
        self._cut_short = "" if ended else f"the run did not come to its end ({outcome.reason or error or 'it failed'})"
        return ended

    def show(self, texts: Sequence[str]) -> list[bool]:
        """Whether torch tells of the cause when each is run, and it runs to its end."""
        if time.monotonic() > self._until or self._means.stopped():
            raise OutOfBudget
        outcomes = self._means.asking.ask(texts, self._cause, self._deadline)
        shown = [self._came_to_end(outcome) and shows(outcome) for outcome in outcomes]
        for outcome in itertools.compress(outcomes, shown):
            self._deadline = deadline_alone(outcome.seconds, self._deadline)
        return shown

    def fresh(self, text: str, *, raises: bool) -> bool:
        source, folder = self._means.asking.place(text)
        script = folder / "script.py"
        files.write_text(script, text if raises else source)
        outcome = self._means.fresh(script)
        error = outcome.failure.text if outcome.failure is not None else ""
        if raises:
            shown = self._cause.in_(raised(error))
        else:
            shown = self._came_to_end(outcome) and self._cause.in_(recorded(folder / "record"))
        if not shown:
            how = "as an error" if raises else "in what torch tells"
            ended = f": it ended with {outcome.reason}" if outcome.reason else ""
            self._means.say(f"a fresh process does not show it {how}{ended}"[:200])
        return shown


def _docstring(cause: Cause, versions: str, text: str, *, raises: bool) -> str:
    what = "Graph break" if cause.is_break else "Recompilation"
    if raises:
        how = "fullgraph=True makes an error of it." if cause.is_break else "error_on_recompile makes an error of it."
    else:
        how = f"TORCH_LOGS={'graph_breaks' if cause.is_break else 'recompiles'} tells of it."
    foreign = [name for name in imported(text) if name != "torch"]
    said = [f"{what}: {cause.title}", f"{versions}, from {cause.source}. {how}"]
    said += [f"Needs besides torch: {', '.join(foreign)}."] if foreign else []
    told = "\n".join(textwrap.fill(s.replace("\\", "/").replace('"""', "'''"), 110) for s in said)
    return f'"""{told}\n"""\n\n'
