"""Verifies scripts of the program's own source in fresh processes; puts them in place, the best so far on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.failure import Failure
from torchsleuth.case.ir import Graph, operators
from torchsleuth.errors import OutputUnwritable, SleuthError
from torchsleuth.investigate import verified
from torchsleuth.investigate.checkpoints import FOLDER, Pace
from torchsleuth.investigate.published import publish
from torchsleuth.investigate.source_judging import Effort, Judging
from torchsleuth.judge.judgement import JudgementLog
from torchsleuth.judge.verify import Verification
from torchsleuth.reduce.chance import Chance
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.source.layout import laid_out
from torchsleuth.reduce.source.seeds import seeds_in
from torchsleuth.reduce.source.shrink import count_lines, lines, size
from torchsleuth.reduce.source.whole import imported
from torchsleuth.watch.found import Found
from torchsleuth.write import repro_text, sentences
from torchsleuth.write.findings import Finding, Repro

FORM = "frame"
Verify = Callable[[Path, Failure, int, Sequence[str], Chance], Verification]
_MOST_CHECKPOINTS = 12
_TIMES_SMALLER = 1.25  # than the script in place, for another to be verified on the way
_RUNS = 3
_RUNS_WITH_LUCK = 10  # where random numbers decide: a failure in 9 of 10 runs passes three of them too easily


@dataclass(frozen=True)
class Folders:
    """Where the files of one failure stand."""

    place: Path  # where the repro is put
    home: Path  # of the failure: checkpoints
    scratch: Path


@dataclass(frozen=True)
class Placed:
    """A verified script, and the largest graph of it."""

    repro: Repro
    graph: Graph | None


@dataclass(frozen=True)
class Tried:
    placed: Placed | None  # None: it was not verified
    undecided: bool = False  # not verified, and some runs passed: it may come and go


class SourcePlacing:
    """Puts scripts of one failure in place, each only when it was seen to fail in the same way."""

    def __init__(
        self,
        found: Found,
        folders: Folders,
        effort: Effort,
        verify: Verify,
        largest: Callable[[Path], Graph | None],
        path: Sequence[str],
        log: JudgementLog,
    ) -> None:
        self._found = found
        self._folder = folders.place
        self._draft = folders.scratch / "source-draft" / "repro.py"
        self._log = log
        self._effort = effort
        self._verify = verify
        self._largest = largest
        self._path = path

    def say(self, text: str) -> None:
        self._effort.say(text)

    def now(self) -> float:
        return self._effort.now()

    def try_text(self, text: str, finding: Finding, runs: int) -> Tried:
        """What stands in place stays there where the script is not verified."""
        if self._effort.stopped():
            return Tried(None)
        text = laid_out(text)
        imports = imported(text)
        full = with_docstring(text, finding, self._found, imports)
        try:
            files.write_text(self._draft, full)
            self._effort.say("verifying repro.py in fresh processes, without torchsleuth")
            path = self._path if imports != ("torch",) else ()
            proof = self._verify(self._draft, finding.failure, runs, path, finding.chance)
            if not proof.verified:
                self._effort.say(f"the script is not good enough: {proof.reason}")
                return Tried(None, proof.undecided)
            claims = verified.record(self._log, self._draft, text, finding.failure, proof)
            full = with_docstring(text, replace(finding, claims=claims), self._found, imports)
            publish(full, None, self._folder)
        except SleuthError as error:
            self._effort.say(str(error))
            return Tried(None)
        graph = self._largest(self._draft)
        repro = Repro(
            self._folder / "repro.py", full, FORM, operators(graph) if graph else 0, imports, 0, proof.verified,
            proof.runs, proof.failed_runs, proof.reason, claims=claims, source_lines=count_lines(text),
        )  # fmt: skip
        return Tried(Placed(repro, graph))

    def operators_of(self, text: str, finding: Finding) -> int:
        """Operators of the largest graph of a script that is not put in place."""
        files.write_text(self._draft, with_docstring(text, finding, self._found, imported(text)))
        graph = self._largest(self._draft)
        return operators(graph) if graph else 0


class OnTheWay:
    """Judges scripts for the reduction; notes, keeps and now and then verifies the smallest that fails."""

    def __init__(
        self, judging: Judging, placing: SourcePlacing, journal: Journal, checkpoints: Path, whole: str
    ) -> None:
        self._judging = judging
        self._placing = placing
        self._journal = journal
        self._folder = checkpoints / FOLDER
        self._whole = whole
        self._writes = True
        self.smallest = whole
        self.placed: Placed | None = None  # on the way
        self.placed_text: str | None = None
        self.finding: Finding | None = None
        self._pace = Pace(0.0, size(whole)[0], _TIMES_SMALLER, placing.now)

    def begin(self, finding: Finding, cost: float) -> None:
        """`finding` is what is said of a smaller script; the whole, or a smaller one, is in place at that cost."""
        self.finding = finding
        self._pace.spent(size(self.smallest)[0], cost)

    def fail(self, texts: Sequence[str]) -> list[bool]:
        self._verify_if_due()
        failing = self._judging.fail(texts)
        best = min((text for text, fails in zip(texts, failing, strict=True) if fails), key=size, default=None)
        if best is not None and size(best) < size(self.smallest):
            self.smallest = best
            self._journal.note_smaller_script(best, self._whole)
            self._write(best)
        return failing

    def _verify_if_due(self) -> None:
        nodes = size(self.smallest)[0]
        if self.finding is None or not self._pace.due(nodes):
            return
        text = self._judging.written(self.smallest)
        with self._pace.spending(nodes):
            tried = self._placing.try_text(text, self.finding, runs=1)
        if tried.placed is not None:
            self.placed, self.placed_text = tried.placed, self.smallest
            self._placing.say(f"verified, and in place: {lines(text)}; Ctrl-C keeps it")

    def _write(self, text: str) -> None:
        """As graphs do: judged, not verified; the largest go first."""
        if not self._writes:
            return
        count = count_lines(text)
        try:
            name = f"repro_{count}_line{'s' * (count != 1)}.py"
            files.write_text(self._folder / name, laid_out(self._judging.written(text)))
            kept = sorted(self._folder.glob("repro_*_line*.py"), key=lambda path: int(path.name.split("_")[1]))
            for old in kept[_MOST_CHECKPOINTS:]:
                with suppress(OSError):
                    old.unlink()
        except (OutputUnwritable, OSError) as error:
            self._writes = False
            self._placing.say(f"no checkpoints are written: {error}")


def runs_for(judging: Judging, text: str, *, luck_was_seen: bool) -> int:
    """Fresh processes in which a final script is run."""
    by_luck = luck_was_seen or (judging.depends_on_luck(text) and not seeds_in(text))
    return _RUNS_WITH_LUCK if by_luck else _RUNS


def with_docstring(text: str, finding: Finding, found: Found, imports: Sequence[str]) -> str:
    """Put a docstring on a script of the program's own source."""
    failure, hello = finding.failure, found.process.hello
    if not finding.versions:
        finding = replace(finding, versions={name: str(hello[name]) for name in ("torch", "python") if name in hello})
    paragraphs = [
        repro_text.title(finding),
        repro_text.error(failure),
        repro_text.where(failure, failure.phase, finding.component),
        "The script is the program's own source, made smaller.",
        *repro_text.requirements(imports),
        *([finding.chance.sentence] if finding.chance.flaky else []),
        *sentences.facts(finding.claims),
        repro_text.versions(finding),
    ]
    return f"{repro_text.docstring(paragraphs)}\n{text}"
