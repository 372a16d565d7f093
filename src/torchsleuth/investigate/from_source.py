"""A repro from the program's own file, for what no graph shows alone: Dynamo's errors, and what Dynamo loses.

The file is judged as it is, made smaller statement by statement, and verified like any other repro (form `frame`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import Graph, operators
from torchsleuth.errors import SleuthError
from torchsleuth.judge.base import Judge
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial, deadline_alone
from torchsleuth.judge.verify import Verification
from torchsleuth.locate.ladder import Component
from torchsleuth.locate.named import line_reading
from torchsleuth.operators.properties import computes
from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source import draws
from torchsleuth.reduce.source.asserting import asserting
from torchsleuth.reduce.source.joined import joined
from torchsleuth.reduce.source.layout import laid_out
from torchsleuth.reduce.source.shrink import Shrinker, lines
from torchsleuth.reduce.source.whole import file_of, imported, text_of
from torchsleuth.watch.found import Found
from torchsleuth.write import repro_text
from torchsleuth.write.findings import Culprit, Finding, Repro
from torchsleuth.write.own_data import count_lines

FORM = "frame"
# The backend that goes no further than what is to blame: each judgement is sooner done.
_SOONER = {
    Component.DYNAMO: "eager",
    Component.AOT: "aot_eager",
    Component.DECOMPOSITION: "aot_eager_decomp_partition",
    Component.PARTITIONER: "aot_eager_decomp_partition",
}


@dataclass(frozen=True)
class Means:
    judge: Judge
    scratch: Path
    place: Path  # where the repro is put
    deadline: float
    until: float  # of time.monotonic
    jobs: int
    minimize: bool
    stopped: Callable[[], bool]
    say: Callable[[str], None]
    verify: Callable[[Path, Failure, int, Sequence[str]], Verification]
    largest: Callable[[Path], Graph | None]  # of the graphs that Dynamo captures from a script
    path: Sequence[str]


def reproduce(finding: Finding, found: Found, means: Means) -> Finding:
    text = text_of(found.process)
    if text is None or means.stopped():
        return finding
    began = time.monotonic()
    # Dynamo and AOTAutograd alone run eager's kernels, which draw as eager does.
    draws_itself = finding.component not in (Component.DYNAMO, Component.AOT)
    numbers = itertools.count(1)
    for script in _scripts(text, found, means):
        asked = _Judging(means, found.failure, draws_itself, numbers)
        started = asked.first(script)
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
    )
    # The whole file first, so that whoever loses patience has it.
    placed = _verified(text, told, found, means, runs=1 if means.minimize else 3)
    if placed is None:
        return finding
    ops = placed.repro.ops
    if means.minimize:
        shrinker = Shrinker(text, asked.fail, means.say, means.jobs, _SOONER.get(told.component, ""))
        shrinker.shrink()
        smaller = replace(told, failure=repro_text.of_the_program(told.failure))
        texts = (laid_out(asked.written(small)) for small in shrinker.next_best())
        tried = (_verified(small, smaller, found, means, runs=3) for small in texts)
        placed = next((one for one in tried if one is not None), placed)
    if not (told.culprit.op or told.culprit.compiler_pass) and told.component is not Component.DYNAMO:
        told = replace(told, culprit=_culprit(placed, found) or told.culprit)
    return replace(
        told, repro=placed.repro, why_not="", ops_before=max(finding.ops_before, ops),
        judged=finding.judged + asked.judged, judged_to_smallest=finding.judged + asked.judged,
        seconds=finding.seconds + time.monotonic() - began,
    )  # fmt: skip


def _scripts(text: str, found: Found, means: Means) -> Iterator[str]:
    """The program's own file: with its modules in it, where it has some; else as it is."""
    file = file_of(found.process)
    folders = [*([file.parent] if file is not None else []), *map(Path, means.path)]
    whole = joined(text, folders)
    if whole is not None:
        means.say(f"trying the program's own files as one script, {lines(whole)}")
        yield whole
    if not means.stopped():
        means.say(f"trying the program's own file, {lines(text)}, as the script")
        yield text


@dataclass(frozen=True)
class _Placed:
    """A verified script, and the largest graph of it."""

    repro: Repro
    graph: Graph | None


class _Judging:
    """Which texts fail as the program did."""

    def __init__(self, means: Means, failure: Failure, draws_itself: bool, numbers: Iterator[int]) -> None:
        self._means = means
        self._draws_itself = draws_itself
        self._draws_like_eager = False
        self._failure = failure
        self._numbers = numbers  # of the trials' folders
        self._deadline = means.deadline
        self.judged = 0

    def first(self, text: str) -> tuple[str, Failure] | None:
        """The text to begin with, and how it fails; None where it does not fail as the program did."""
        outcome = self._outcomes([text])[0]
        if self._failure.kind is Kind.ACCURACY and _fails_otherwise(outcome):
            text, outcome = self._as_assertion(text, outcome)
        if not self._alike(outcome):
            self._means.say(f"the file alone: {outcome.verdict.value} {outcome.reason}"[:200])
            return None
        assert outcome.failure is not None
        self._failure = outcome.failure if outcome.failure.kind is Kind.ACCURACY else self._failure
        if self._failure.kind is not Kind.HANG:
            self._deadline = deadline_alone(outcome.seconds, self._deadline)
        if self._failure.kind is Kind.ACCURACY and self._draws_itself:
            self._draws_like_eager = self._alike(self._outcomes([draws.judged(text)])[0])
        return text, replace(self._failure, text=outcome.failure.text)

    def _as_assertion(self, text: str, outcome: Outcome) -> tuple[str, Outcome]:
        """Wrong numbers are told by an assertion; where the program trips over them in torch, by the error it gets."""
        changed = asserting(text)
        asserted = self._outcomes([changed])[0] if changed != text else outcome
        if asserted.failure is not None and asserted.failure.kind is Kind.ACCURACY:
            return changed, asserted
        assert outcome.failure is not None
        self._failure = outcome.failure
        return text, outcome

    def written(self, text: str) -> str:
        return draws.written(text) if self._draws_like_eager else text

    def fail(self, texts: Sequence[str]) -> list[bool]:
        if time.monotonic() > self._means.until or self._means.stopped():
            raise OutOfBudget
        texts = [draws.judged(text) for text in texts] if self._draws_like_eager else texts
        return [self._alike(outcome) for outcome in self._outcomes(texts)]

    def _alike(self, outcome: Outcome) -> bool:
        if outcome.verdict is not Verdict.FAILED or outcome.failure is None:
            return False
        return match(outcome, Target(self._failure)) is Match.SAME

    def _outcomes(self, texts: Sequence[str]) -> list[Outcome]:
        trials = []
        for text in texts:
            folder = self._means.scratch / f"source-{next(self._numbers)}"
            folder.mkdir(parents=True)
            trials.append(Trial(text, folder, self._failure.phase, self._deadline))
        before = self._means.judge.judged
        outcomes = self._means.judge.judge_all(trials)
        self.judged += self._means.judge.judged - before
        return outcomes


def _fails_otherwise(outcome: Outcome) -> bool:
    failure = outcome.failure
    return outcome.verdict is Verdict.FAILED and failure is not None and failure.kind is not Kind.ACCURACY


def _verified(text: str, finding: Finding, found: Found, means: Means, *, runs: int) -> _Placed | None:
    """In place only when it was seen to fail alike; what stands there stays where it was not."""
    if means.stopped():
        return None
    imports = imported(text)
    full = _with_docstring(text, finding, found, imports)
    draft = means.scratch / "source-draft" / "repro.py"
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        files.write_text(draft, full)
        means.say("verifying repro.py in fresh processes, without torchsleuth")
        proof = means.verify(draft, finding.failure, runs, means.path if imports != ("torch",) else ())
        if not proof.verified:
            means.say(f"the script is not good enough: {proof.reason}")
            return None
        files.write_text(means.place / "repro.py", full)
    except SleuthError as error:
        means.say(str(error))
        return None
    graph = means.largest(draft)
    repro = Repro(
        means.place / "repro.py", full, FORM, operators(graph) if graph else 0, imports, 0, proof.verified, proof.runs,
        proof.failed_runs, proof.reason, source_lines=count_lines(text),
    )  # fmt: skip
    return _Placed(repro, graph)


def _culprit(placed: _Placed, found: Found) -> Culprit | None:
    """The only operator that what is left computes, and the line of the program that reads as its line does."""
    calls = [n for n in placed.graph.nodes if n.is_call and computes(n.target)] if placed.graph is not None else []
    if len(calls) != 1:
        return None
    node = calls[0]
    file = file_of(found.process)
    code = node.source.code if node.source is not None else ""
    return Culprit(node.target, None, line_reading(code, file) if file is not None else None)


def _with_docstring(text: str, finding: Finding, found: Found, imports: Sequence[str]) -> str:
    failure, hello = finding.failure, found.process.hello
    said = [
        repro_text.headline(failure),
        f"{failure.kind.value} in {finding.component.value}.",
        f"torch {hello.get('torch', 'unknown')}, python {hello.get('python', 'unknown')}.",
        f"Passes with {_off(text)}. It is the program's own source: no graph that Dynamo captured shows it.",
    ]
    foreign = [name for name in imports if name != "torch"]
    said += [f"Needs besides torch: {', '.join(foreign)}."] if foreign else []
    return f"{repro_text.docstring(said)}\n{text}"


def _off(text: str) -> str:
    """How a script is run uncompiled: where it needs fullgraph=True, TORCH_COMPILE_DISABLE=1 raises an error itself."""
    return 'torch.compiler.set_stance("force_eager")' if "fullgraph" in text else "TORCH_COMPILE_DISABLE=1"
