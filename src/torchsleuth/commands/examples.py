"""`torchsleuth explain --minimize`: a small script for each graph break and each recompilation, the costliest first."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsleuth.case.failure import Phase
from torchsleuth.commands.asking import Asking, Cause
from torchsleuth.commands.example import Example, Means, example
from torchsleuth.errors import JudgeBroken
from torchsleuth.explain.as_json import show
from torchsleuth.explain.explanation import Explanation
from torchsleuth.explain.observed import guard_key
from torchsleuth.investigate.placing import Means as ProgramMeans
from torchsleuth.judge.engines import LOCAL, Engines
from torchsleuth.judge.outcome import Outcome
from torchsleuth.judge.setting import setting
from torchsleuth.reduce.journal import NAME, Journal
from torchsleuth.reduce.source.whole import folders_of, text_of
from torchsleuth.watch.session import Process

FOLDER = "examples"
_MOST = 5  # of each kind


@dataclass(frozen=True)
class Wish:
    """What the user gives for it."""

    budget: float
    jobs: int
    stopped: Callable[[], bool]
    ends: Callable[[Callable[[], None]], None]  # what is to be called when the user loses patience
    say: Callable[[str], None]
    engines: Engines = LOCAL


@dataclass(frozen=True)
class _Wanted:
    kind: str  # "breaks" or "recompiles", as in explain.json
    number: int  # there
    cause: Cause

    @property
    def name(self) -> str:
        return f"{self.kind.removesuffix('s')}-{self.number + 1}.py"


def examples(
    found: Explanation, processes: Sequence[Process], seconds: float, out: Path, wish: Wish
) -> dict[str, dict[int, dict[str, Any]]]:
    """For "breaks" and "recompiles": by number, the script that was made, or why none was."""
    wanted = list(_wanted(found))
    made: dict[str, dict[int, dict[str, Any]]] = {"breaks": {}, "recompiles": {}}
    ran = next(((p, text) for p in processes if (text := text_of(p)) is not None), None)
    if ran is None:
        why = "the program is not one Python file, and only such are made smaller"
        for one in wanted:
            made[one.kind][one.number] = {"path": None, "why_not": why}
        return made
    process, text = ran
    scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-examples-"))
    program = ProgramMeans.of(process, _without_torch_logs(os.environ), seconds, wish.jobs)
    ends = time.monotonic() + wish.budget
    try:
        judge = wish.engines.open_judge(
            {"cpu"}, python=program.python, environment=program.environment, scratch=scratch, path=program.path,
            jobs=wish.jobs,
        )  # fmt: skip
        wish.ends(judge.cancel)

        environment = {**program.environment, "PYTHONPATH": os.pathsep.join(program.path)}

        def fresh(script: Path) -> Outcome:
            return wish.engines.fresh(
                script, Phase.RUN_FORWARD, python=program.python, environment=environment, deadline=program.deadline,
                stopped=wish.stopped,
            )  # fmt: skip

        asking = Asking(judge, scratch, _journal(out, program, wish), folders_of(process, program.path))
        means = Means(asking, fresh, program.deadline, wish.jobs, wish.stopped, wish.say)
        versions = f"torch {process.hello.get('torch', 'unknown')}, python {process.hello.get('python', 'unknown')}"
        try:
            alike = _alike(wanted)
            for done, same in enumerate(alike):
                share = (ends - time.monotonic()) / (len(alike) - done)
                until = time.monotonic() + share
                result = example(text, same[0].cause, out / FOLDER / same[0].name, versions, until, means)
                for one in same:
                    made[one.kind][one.number] = _json(result, out)
        except JudgeBroken as error:
            why = "stopped by Ctrl-C" if wish.stopped() else str(error)
            for one in wanted:
                made[one.kind].setdefault(one.number, {"path": None, "why_not": why})
        finally:
            judge.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return made


def _journal(out: Path, program: ProgramMeans, wish: Wish) -> Journal:
    (out / FOLDER).mkdir(exist_ok=True)
    where = setting(program.python, program.environment, wish.engines.versions)
    return Journal(out / FOLDER / NAME, setting=where, say=wish.say)


def _wanted(found: Explanation) -> Sequence[_Wanted]:
    breaks = [
        _Wanted("breaks", n, Cause(True, b.reason, b.reason, show(b.place))) for n, b in enumerate(found.breaks[:_MOST])
    ]
    again = [
        _Wanted("recompiles", n, Cause(False, guard_key(r.cause), r.cause, show(r.place)))
        for n, r in enumerate(found.recompiles[:_MOST])
    ]
    return [*breaks, *again]


def _alike(wanted: Sequence[_Wanted]) -> list[list[_Wanted]]:
    """Those that one script shows: the same guard failed for two functions, one of which calls the other."""
    groups: dict[tuple[bool, str], list[_Wanted]] = {}
    for one in wanted:
        groups.setdefault((one.cause.is_break, one.cause.key), []).append(one)
    return list(groups.values())


def _json(result: Example | str, out: Path) -> dict[str, Any]:
    if isinstance(result, str):
        return {"path": None, "why_not": result}
    return {
        "path": str(result.path.relative_to(out)),
        "text": result.text,
        "lines": len(result.text.splitlines()),
        "raises": result.raises,
        "judged": result.judged,
        "seconds": round(result.seconds, 1),
        "why_not": None,
    }


def _without_torch_logs(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k not in ("TORCH_LOGS", "TORCH_TRACE")}
