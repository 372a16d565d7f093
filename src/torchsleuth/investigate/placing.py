"""repro.py: written where nobody looks, verified in fresh processes, and only then put in its place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.case.failure import Failure, Kind
from torchsleuth.case.ir import Source, operators
from torchsleuth.case.model import Case, Tensor
from torchsleuth.case.program import Form, Rendering, render
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.investigate import verified
from torchsleuth.investigate.published import publish, rewrite
from torchsleuth.judge.bench import Bench, Way
from torchsleuth.judge.engines import LOCAL, Engines
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.judgement import JudgementLog
from torchsleuth.judge.trial import deadline_for
from torchsleuth.judge.verify import Verification, verify as verify_fresh
from torchsleuth.reduce.chance import Chance
from torchsleuth.watch.patience import WHILE_TUNING
from torchsleuth.watch.session import Process
from torchsleuth.write import repro_text
from torchsleuth.write.findings import Finding, Repro

Say = Callable[[str], None]
_LONGEST_DEADLINE = 600.0
_LEAST_HANG = 30.0
_HANGS_IN_BUDGET = 8
_LEAST_FRESH = 120.0
_AS_LONG = 1.5
STOPPED = "stopped by Ctrl-C before it was known"


@dataclass(frozen=True)
class Means:
    """How a program's Cases are judged: its Python, its environment, its path, and what runs them."""

    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    jobs: int
    deadline: float
    engines: Engines = LOCAL

    @staticmethod
    def of(
        process: Process, environment: Mapping[str, str], seconds: float, jobs: int, engines: Engines = LOCAL
    ) -> Means:
        deadline = min(deadline_for(seconds), _LONGEST_DEADLINE)
        return Means(
            str(process.hello["executable"]),
            judge_environment(environment),
            tuple(process.path),
            jobs,
            deadline,
            engines,
        )


@dataclass(frozen=True)
class Plan:
    """How far to go."""

    minimize: bool = False
    budget: float = 600.0
    stopped: Callable[[], bool] = lambda: False
    locate: bool = False  # look inside the compiler even where nothing is reduced
    keep_only: bool = False  # write the Case and judge nothing
    journal: Path | None = None  # of the Case that was named, where it is not one of this run


@dataclass(frozen=True)
class Placing:
    """What it takes to get from a Case to a verified script in the output folder."""

    means: Means
    plan: Plan
    out: Path
    scratch: Path
    say: Say
    log: JudgementLog = field(default_factory=JudgementLog)

    def write(
        self,
        finding: Finding,
        case: Case,
        way: Way,
        home: Path,
        bench: Bench,
        *,
        first: bool,
        runs: int,
        reduced: bool = False,
    ) -> Repro:
        """Verified where nobody looks; only then does it take the place of what was there."""
        failure = finding.failure
        limit = self.hang_limit(case) if failure.kind is Kind.HANG else None
        rendering, text = self.text(finding, case, way, reduced=reduced)
        ops = operators(case.graph)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=self.scratch))
        files.write_text(draft / "repro.py", text)
        if rendering.data:
            bench.write_data(rendering, way.home, draft / DATA_FILE)
        self.say("verifying repro.py in fresh processes, without torchsleuth")
        # A module of the user's that the script must import is found where the program found it.
        path = self.means.path if rendering.imports != ("torch",) else ()
        deadline = (limit or 0) * 2 + self.means.deadline
        proof = self.verify(draft / "repro.py", failure, runs, deadline, path, finding.chance)
        claims = verified.record(self.log, draft / "repro.py", rendering.source, failure, proof)
        final = (self.out if first else home) if proof.verified else home / "unverified"
        text, data_bytes = publish(text, draft / DATA_FILE, final)
        repro = _repro(final / "repro.py", text, rendering.form, ops, rendering.imports, data_bytes, proof)
        repro = replace(repro, claims=claims, source_lines=rendering.source_lines)
        placed = replace(finding, repro=repro, claims=claims, lines=lines_of(case))
        assert placed.repro is not None
        return self.say_where(placed.repro, placed, case, way, reduced=reduced) if proof.verified else placed.repro

    def text(self, finding: Finding, case: Case, way: Way, *, reduced: bool) -> tuple[Rendering, str]:
        """The script of a Case, and the script with its docstring."""
        limit = self.hang_limit(case) if finding.failure.kind is Kind.HANG else None
        rendering = render(case, way.form, data=way.data, hang_limit=limit)
        ops = operators(case.graph)
        notes = [] if reduced or ops <= 3 else [f"Not reduced: {ops} operators, as the program had them."]
        notes += [finding.chance.sentence] if finding.chance.flaky else []
        notes += [f"Not known: {what}." for what in not_kept(case)]
        failure = repro_text.of_the_program(finding.failure) if reduced else finding.failure
        return rendering, repro_text.with_docstring(finding, rendering, case.phase, failure, notes)

    def say_where(self, repro: Repro, finding: Finding, case: Case, way: Way, *, reduced: bool = False) -> Repro:
        """Rewrite the docstring of a script that is in place with what is known by now."""
        text = self.text(finding, case, way, reduced=reduced)[1]
        return replace(repro, source=rewrite(repro.path, text, repro.source))

    def hang_limit(self, case: Case) -> float:
        """Short enough that a hang is judged and verified several times within the budget."""
        tuning = WHILE_TUNING if case.surroundings.backend.tunes else 1.0
        return min(hang_limit(case), self.longest_hang * tuning)

    @property
    def longest_hang(self) -> float:
        return max(_LEAST_HANG, self.plan.budget / _HANGS_IN_BUDGET)

    def verify(
        self, script: Path, failure: Failure, runs: int, deadline: float, path: Sequence[str], chance: Chance,
        environment: Mapping[str, str] | None = None,
    ) -> Verification:  # fmt: skip
        if self.plan.stopped():
            return Verification(0, 0, None, (), STOPPED)
        environment = dict(environment or self.means.environment)
        if path:
            environment["PYTHONPATH"] = os.pathsep.join([*path, environment.get("PYTHONPATH", "")])
        if failure.kind is not Kind.HANG:  # a fresh process imports torch first, perhaps on a machine that is busy
            deadline = max(_LEAST_FRESH, deadline)
        proof = verify_fresh(
            script, failure, python=self.means.python, environment=environment, runs=chance.verifications(runs),
            deadline=deadline, jobs=self.means.jobs, flaky=chance.flaky, stopped=self.plan.stopped,
            run_script=self.means.engines.fresh,
        )  # fmt: skip
        return replace(proof, reason=STOPPED) if self.plan.stopped() and not proof.verified else proof


def _repro(
    path: Path, text: str, form: Form, ops: int, imports: tuple[str, ...], data_bytes: int, proof: Verification
) -> Repro:
    return Repro(
        path, text, form.value, ops, imports, data_bytes, proof.verified, proof.runs, proof.failed_runs, proof.reason,
        proof.undecided and not proof.verified,
    )  # fmt: skip


def lines_of(case: Case) -> tuple[Source, ...]:
    """List the user's lines that the operators of a Case come from."""
    nodes = (n for g in case.graph.all_graphs() for n in g.nodes if n.is_call)
    return tuple(dict.fromkeys(n.source for n in nodes if n.source is not None))


def not_kept(case: Case) -> Iterator[str]:
    """Name the values that the Case could not keep; random numbers stand for them."""
    for value in (*case.inputs, *case.constants):
        if isinstance(value, Tensor) and not value.unknown and value.storage < len(case.storages):
            storage = case.storages[value.storage]
            if storage.digest and not storage.kept:
                name = value.source or f"a tensor of shape {list(value.shape)}"
                yield f"the values of {name} ({storage.nbytes:,} bytes): not kept, random numbers stand for them"


def hang_limit(case: Case) -> float:
    """Seconds after which a graph that eager runs at once is said to hang: more for more operators, and for tuning."""
    seconds = deadline_for(0.05 * operators(case.graph))
    return seconds * WHILE_TUNING if case.surroundings.backend.tunes else seconds


def alone_as_long(case: Case, lasted: float) -> float:
    """Seconds that a stage which lasted so long in the program is given alone, where there is one compile worker and
    perhaps the program beside: an honest compilation that somebody interrupted comes to its end in them.
    """
    return max(hang_limit(case), _AS_LONG * lasted)
