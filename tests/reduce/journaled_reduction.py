"""A whole reduction with a journal and a Judge that only reads scripts: to be killed at any moment.

    python journaled_reduction.py FOLDER SECONDS

FOLDER gets journal.jsonl, one line in asked.txt for each judgement that begins, and result.txt at the end.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toys import chain

from torchsleuth.case import graph_text
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.program import Form
from torchsleuth.investigate import minimise
from torchsleuth.judge.bench import Bench
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.journal import NAME, Journal
from torchsleuth.reduce.reducer import Hints

FAILURE = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("ValueError", "no"))
CASE = chain(60, {11: "relu", 47: "tanh"})


class ReadingJudge:
    """Fails what calls both relu and tanh, in that order."""

    jobs = 2

    def __init__(self, asked: Path, seconds: float) -> None:
        self._asked = asked
        self._seconds = seconds

    def judge_all(self, trials: Iterable[Trial], heard: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
        def judge(number: int, trial: Trial) -> Outcome:
            outcome = self._judge(trial)
            if heard is not None:
                heard(number, outcome)
            return outcome

        trials = list(trials)
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(judge, range(len(trials)), trials))

    def _judge(self, trial: Trial) -> Outcome:
        handle = os.open(self._asked, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, hashlib.sha256(trial.source.encode()).hexdigest().encode() + b"\n")
        os.close(handle)
        time.sleep(self._seconds)
        relu, tanh = trial.source.find("torch.relu("), trial.source.find("torch.tanh(")
        if 0 <= relu < tanh:
            return Outcome(Verdict.FAILED, FAILURE)
        return Outcome(Verdict.PASSED)


def reduce(folder: Path, seconds: float) -> str:
    journal = Journal(folder / NAME, setting="toy")
    scratch = folder / f"scratch-{os.getpid()}"
    bench = Bench(
        ReadingJudge(folder / "asked.txt", seconds),  # type: ignore[arg-type]
        scratch, python=sys.executable, environment={}, deadline=30.0, memory=journal,
    )  # fmt: skip
    means = minimise.Means(
        bench,
        folder,
        sys.executable,
        {},
        (),
        2,
        float("inf"),
        lambda: False,
        lambda _: None,
        better=lambda case, way: journal.note_smaller(case),
    )
    found = minimise.reduce_case(CASE, FAILURE, Form.COMPILE, False, Hints(), means, facts=from_graph(CASE))
    return f"{graph_text.write(found.case.graph)}\n{found.judged} {found.judged_to_smallest}\n"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    text = reduce(place, float(sys.argv[2]))
    (place / "result.txt").write_text(text)
