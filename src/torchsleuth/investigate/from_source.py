"""A repro from the program's own file, for what no graph shows alone: Dynamo's errors, and what Dynamo loses.

The file is judged as it is, made smaller statement by statement, and verified like any other repro (form `frame`).
Every judgement and every smaller script is in the journal: after a kill the same turns are taken without judging them
again.  What may not be remembered, because it depends on files beside the script, begins with the smallest script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.ir import Graph, picks
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, of
from torchsleuth.investigate.blaming import NOT_TOLD
from torchsleuth.investigate.reduction import NOT_MINIMAL
from torchsleuth.investigate.source_judging import Effort, Judging
from torchsleuth.investigate.source_placing import (
    FORM,
    Folders,
    OnTheWay,
    Placed,
    SourcePlacing,
    Tried,
    Verify,
    runs_for,
)
from torchsleuth.locate.ladder import Component
from torchsleuth.locate.named import line_reading
from torchsleuth.operators.properties import computes
from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source.bench import ScriptBench
from torchsleuth.reduce.source.joined import joined
from torchsleuth.reduce.source.shrink import Shrinker, lines, size
from torchsleuth.reduce.source.whole import file_of, folders_of, text_of
from torchsleuth.watch.found import Found
from torchsleuth.write import repro_text
from torchsleuth.write.findings import Culprit, Finding

__all__ = ["FORM", "Effort", "Folders", "Means", "reproduce"]

# The backend that goes no further than what is to blame: each judgement is sooner done.
_SOONER = {
    Component.DYNAMO: "eager",
    Component.AOT: "aot_eager",
    Component.DECOMPOSITION: "aot_eager_decomp_partition",
    Component.PARTITIONER: "aot_eager_decomp_partition",
}


@dataclass(frozen=True)
class Means:
    bench: ScriptBench
    folders: Folders
    deadline: float
    effort: Effort
    verify: Verify
    largest: Callable[[Path], Graph | None]  # of the graphs that Dynamo captures from a script
    path: Sequence[str]


def reproduce(finding: Finding, found: Found, means: Means) -> Finding:
    text = text_of(found.process)
    if text is None or means.effort.stopped():
        return finding
    began = time.monotonic()
    # Dynamo and AOTAutograd alone run eager's kernels, which draw as eager does.
    draws_itself = finding.component not in (Component.DYNAMO, Component.AOT)
    for script in _scripts(text, found, means):
        judging = Judging(means.bench, found.failure, means.deadline, means.effort, draws_itself=draws_itself)
        started = judging.first(script)
        if started is not None:
            break
    else:
        return finding
    text, target = started
    told = replace(
        finding,
        failure=replace(target, summary=found.failure.summary or target.summary),
        versions=finding.versions
        or {name: str(found.process.hello.get(name, "unknown")) for name in ("torch", "python")},
        chance=judging.chance,
    )
    work = _Work(told, found, means, judging, text)
    placed = work.run()
    if placed is None:
        return finding
    told = replace(work.finding, judged=finding.judged + judging.judged, claims=placed.repro.claims)
    if means.effort.spent or judging.unknown:
        told = replace(told, not_known=(*told.not_known, NOT_MINIMAL))
    if told.component is not Component.DYNAMO:
        told = _with_culprit(told, placed, found)
    return replace(
        told, repro=placed.repro, why_not="", ops_before=max(finding.ops_before, work.ops_of_whole),
        judged_to_smallest=told.judged, seconds=finding.seconds + time.monotonic() - began,
    )  # fmt: skip


def _scripts(text: str, found: Found, means: Means) -> Iterator[str]:
    """The program's own file: with its modules in it, where it has some; else as it is."""
    whole = joined(text, folders_of(found.process, means.path))
    if whole is not None:
        means.effort.say(f"trying the program's own files as one script, {lines(whole)}")
        yield whole
    if not means.effort.stopped():
        means.effort.say(f"trying the program's own file, {lines(text)}, as the script")
        yield text


class _Work:
    """One script that fails as the program did, put in place whole and then made smaller."""

    def __init__(self, finding: Finding, found: Found, means: Means, judging: Judging, whole: str) -> None:
        folders = means.folders
        self.finding = finding
        self.ops_of_whole = 0
        self._found = found
        self._effort = means.effort
        self._bench = means.bench
        self._judging = judging
        self._whole = whole
        self._luck_was_seen = False  # some script failed in the judge and passed in a fresh process
        self._placing = SourcePlacing(
            found, folders, means.effort, means.verify, means.largest, means.path, means.bench.log
        )
        self._way = OnTheWay(judging, self._placing, means.bench.journal, folders.home, whole)

    def run(self) -> Placed | None:
        began = time.monotonic()
        placed, begin = self._first_in_place()
        if placed is None or not self._effort.minimize:
            return placed
        # What is said of a smaller script; the numbers in the program's message are not its own.
        smaller = replace(self.finding, failure=repro_text.of_the_program(self.finding.failure))
        self._way.begin(smaller, time.monotonic() - began)
        found: Placed | None = None
        while True:
            reliable = self._judging.chance
            found = self._reduced(begin, smaller) or found
            if self._judging.chance == reliable or self._effort.spent:
                break
            smaller = replace(smaller, chance=self._judging.chance)  # what passed may have passed by chance
            self._way.begin(smaller, time.monotonic() - began)
        self.finding = replace(self.finding, chance=self._judging.chance)
        return found or self._way.placed or placed

    def _first_in_place(self) -> tuple[Placed | None, str]:
        """The smallest script of a run that was cut short, else the whole: who loses patience has it.

        Also the script to begin with.  Where the judgements of that run are remembered, this is the whole: the same
        turns lead to the same end.
        """
        noted = self._bench.journal.smallest_script(self._whole) if self._effort.minimize else None
        if noted is not None and self._fails_still(noted):
            self._effort.say(f"going on from {lines(noted)}")
            self.ops_of_whole = self._placing.operators_of(self._whole, self.finding)
            tried = self._tried(noted, self.finding, runs=1)
            if tried.placed is not None:
                replayed = self._bench.journal.begun_with and self._bench.remembers(self._whole)
                self._way.smallest = noted
                return tried.placed, self._whole if replayed else noted
        tried = self._tried(self._whole, self.finding, runs=1 if self._effort.minimize else 3)
        self.ops_of_whole = tried.placed.repro.ops if tried.placed else 0
        return tried.placed, self._whole

    def _fails_still(self, text: str) -> bool:
        try:
            return self._judging.fail([text])[0]
        except OutOfBudget:
            return False

    def _reduced(self, begin: str, finding: Finding) -> Placed | None:
        """The smallest script that is verified; None where none is, or where it turned out to come and go."""
        backend = _SOONER.get(finding.component, "")
        shrinker = Shrinker(begin, self._way.fail, self._effort.say, self._effort.jobs, backend)
        shrinker.shrink()
        believed = self._judging.chance
        for text in self._candidates(shrinker):
            if self._effort.stopped():
                return None
            small, reliable = self._settled(text)
            if not reliable:
                self._effort.say(f"{lines(text)} fail with some random numbers and not with others")
                self._luck_was_seen = True
                continue
            runs = runs_for(self._judging, small, luck_was_seen=self._luck_was_seen)
            tried = self._tried(self._judging.written(small), finding, runs=runs)
            if tried.placed is not None:
                return tried.placed
            if self._judging.chance != believed:
                return None
        return None

    def _candidates(self, shrinker: Shrinker) -> Iterator[str]:
        """The smallest, then larger ones; nothing larger than what was put in place on the way before that itself."""
        chosen = list(shrinker.next_best())
        if size(self._way.smallest) < size(chosen[0]):
            chosen.insert(0, self._way.smallest)
        placed = self._way.placed_text
        if placed is not None:
            smaller = [text for text in chosen if size(text) < size(placed)]
            chosen = [*smaller, placed, *(text for text in chosen if text not in smaller)]
        yield from dict.fromkeys(chosen)

    def _settled(self, text: str) -> tuple[str, bool]:
        """The text without a seed that it does not need, and whether it fails with any random numbers."""
        try:
            bare = self._judging.without_seed(text)
            return bare, bare != text or self._judging.is_reliable(text)
        except OutOfBudget:
            return text, True  # not known; more runs in fresh processes decide

    def _tried(self, text: str, finding: Finding, runs: int) -> Tried:
        """Verified; where fresh processes disagree, it is measured how often it fails."""
        tried = self._placing.try_text(text, finding, runs)
        if not tried.undecided or self._judging.chance.flaky or self._effort.spent:
            return tried
        self._luck_was_seen = True
        try:
            measured = self._judging.measure(text)
        except OutOfBudget:
            return tried
        if not measured.flaky:
            return tried
        self._judging.chance = measured
        self.finding = replace(self.finding, chance=measured)
        return self._placing.try_text(text, replace(finding, chance=measured), runs)


def _with_culprit(finding: Finding, placed: Placed, found: Found) -> Finding:
    """Name the only operator of what is left, and the line of the program that reads as its line does."""
    graph = placed.graph
    calls = [n for g in graph.all_graphs() for n in g.nodes if n.is_call and n.name not in picks(g)] if graph else []
    fails = of(finding.claims, Topic.REPRO, ClaimKind.FAILS)
    if len(calls) != 1 or not fails or not computes(calls[0].target):
        return replace(finding, not_known=(*finding.not_known, NOT_TOLD))
    node = calls[0]
    file = file_of(found.process)
    code = node.source.code if node.source is not None else ""
    source = line_reading(code, file) if file is not None else None
    text = f"The operator to blame is {node.target}: the only operator of the repro."
    said = Claim(ClaimKind.CULPRIT, Topic.REPRO, node.target, text, fails[0].judgements)
    culprit = Culprit(node.target, finding.culprit.compiler_pass, source or finding.culprit.source)
    return replace(finding, culprit=culprit, claims=(*finding.claims, said))
