"""`torchsleuth audit`, whole: make every Judgement behind every Claim again, and say which Claims hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.commands.audit_plan import Step, Task, read_plan
from torchsleuth.commands.audit_verdict import compare
from torchsleuth.commands.interruption import Interruption
from torchsleuth.judge.remake import Conditions, Remade, remake
from torchsleuth.write.audit_report import Again, Report, Row, Verdict, worst
from torchsleuth.write.progress import status_of

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    python: str
    torch: str  # the version that it has
    jobs: int = 2
    budget: float | None = None  # seconds; None: as long as it takes
    deadline: float = 300.0  # seconds for one process


@dataclass(frozen=True)
class _Limit:
    """Until when Judgements are made."""

    until: float  # of time.monotonic
    interruption: Interruption

    def reached(self) -> bool:
        return self.interruption.stopped.is_set() or time.monotonic() >= self.until

    @property
    def reason(self) -> str:
        return "it was interrupted" if self.interruption.stopped.is_set() else "the budget was spent"


def audit(folder: Path, settings: Settings, say: Say) -> Report:
    """Audit one output folder."""
    steps = read_plan(folder)
    until = time.monotonic() + settings.budget if settings.budget is not None else float("inf")
    with Interruption() as interruption:
        limit = _Limit(until, interruption)
        conditions = Conditions(settings.python, os.environ, settings.deadline, limit.reached, settings.jobs)
        answers = _make_again(steps, conditions, limit, say)
        rows = tuple(_row(step, answers, folder.resolve()) for step in steps)
        return Report(str(folder), settings.python, settings.torch, rows, interruption.stopped.is_set())


def _make_again(
    steps: Sequence[Step], conditions: Conditions, limit: _Limit, say: Say
) -> dict[tuple[str, str], Remade]:
    """Run each task once, however many Claims rest on it."""
    tasks = {task.key: task for step in steps for task in step.tasks}
    if tasks:
        say(f"making {len(tasks)} judgements again, for {len(steps)} claims")
    answers: dict[tuple[str, str], Remade] = {}
    status = status_of(say)

    def one(task: Task) -> Remade:
        if limit.reached():
            return Remade(obstacle=limit.reason)
        remade = remake(task.request, conditions)
        # A run that was cut short says nothing: not even that it could not be made for its own reason.
        return replace(remade, reason=limit.reason) if limit.reached() and _is_cut_short(remade) else remade

    with ThreadPoolExecutor(max(1, conditions.at_once), "audit") as pool:
        futures = {pool.submit(one, task): key for key, task in tasks.items()}
        for future in as_completed(futures):
            answers[futures[future]] = future.result()
            status(f"{len(answers)} of {len(tasks)} judgements made again")
    return answers


def _is_cut_short(remade: Remade) -> bool:
    return any(found.value == "unknown" for found in remade.matches)


def _row(step: Step, answers: Mapping[tuple[str, str], Remade], folder: Path) -> Row:
    if not step.tasks:
        return step.row
    made = tuple(_again(task, answers[task.key], folder) for task in step.tasks)
    verdict = worst([one.verdict for one in made])
    why = next((_why(one, made) for one in made if one.verdict is verdict), "")
    return replace(step.row, verdict=verdict, why=why, judgements=made)


def _again(task: Task, remade: Remade, folder: Path) -> Again:
    request = task.request
    verdict, why = compare(request.judgement, remade, task.chance)
    script = "" if request.script == folder else request.script.relative_to(folder).as_posix()
    return Again(request.judgement, script, remade, verdict, why)


def _why(one: Again, made: Sequence[Again]) -> str:
    """Name the script where a Claim rests on several."""
    if not one.why or one.verdict is Verdict.HOLDS:
        return ""
    return f"{one.script or one.judgement.id}: {one.why}" if len(made) > 1 else one.why
