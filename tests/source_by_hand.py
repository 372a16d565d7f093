"""A judge that only reads scripts, and what a reduction of source needs besides: shared by tests of from_source."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Source, Value
from torchsleuth.investigate.from_source import Effort, Folders, Means
from torchsleuth.investigate.source_placing import Verify
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.judge.verify import Verification
from torchsleuth.reduce.chance import Chance
from torchsleuth.reduce.journal import Journal
from torchsleuth.reduce.source.bench import ScriptBench
from torchsleuth.watch.found import Found
from torchsleuth.watch.session import Process

FAILURE = Failure(Kind.DYNAMO_ERROR, Phase.COMPILE_FORWARD, Fingerprint("Unsupported", "no"))
GRAPH = Graph(
    (
        Node("x", Op.PLACEHOLDER, "x", value=Value("torch.float32", (2,))),
        Node(
            "sin", Op.CALL_FUNCTION, "torch.sin", (Ref("x"),), value=Value("torch.float32", (2,)),
            source=Source("repro.py", 1, "f", "other = 2"),
        ),
        Node("output", Op.OUTPUT, "output", ((Ref("sin"),),)),
    )
)  # fmt: skip
PROGRAM = "import torch\n\nunused = 1\nother = 2\nbug = torch.compile\n"


class ReadingJudge:
    """Fails alike: the text has "bug" in it.  `stop_after` judgements, the user has lost patience."""

    jobs = 1

    def __init__(self, stop_after: int | None = None) -> None:
        self.judged = 0
        self.asked: list[str] = []
        self._stop_after = stop_after

    def stopped(self) -> bool:
        return self._stop_after is not None and self.judged >= self._stop_after

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        outcomes = []
        for number, trial in enumerate(trials):
            self.judged += 1
            self.asked.append(trial.source)
            outcomes.append(self.outcome(trial.source))
            if heard is not None:
                heard(number, outcomes[-1])
        return outcomes

    def outcome(self, text: str) -> Outcome:
        return Outcome(Verdict.FAILED, FAILURE) if self.fails(text) else Outcome(Verdict.PASSED)

    def fails(self, text: str) -> bool:
        return "bug" in text


def found(tmp_path: Path, *arguments: str, text: str = PROGRAM, failure: Failure = FAILURE) -> Found:
    (tmp_path / "program.py").write_text(text)
    hello = {"argv": ["python", "program.py", *arguments], "cwd": str(tmp_path), "torch": "2.13.0", "python": "3.11"}
    return Found(failure, None, Process(tmp_path, hello))


def always(script: Path, failure: Failure, runs: int, path: Sequence[str], chance: Chance) -> Verification:
    """A verifier that finds every script to fail each time."""
    return Verification(runs, runs, Match.PASSED, ())


def means_of(tmp_path: Path, judge: ReadingJudge, verify: Verify = always, say: Callable[[str], None] = print) -> Means:
    """As in a new process of the tool: what was known is read from the journal's file."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))
    any_judge: Any = judge
    return Means(
        ScriptBench(any_judge, scratch, Journal(home / "journal.jsonl"), [tmp_path]),
        Folders(tmp_path / "out", home, scratch),
        30.0,
        Effort(float("inf"), 1, True, judge.stopped, say),
        verify,
        lambda script: GRAPH,
        (),
    )
