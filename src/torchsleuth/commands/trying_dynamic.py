"""`torchsleuth explain --try-dynamic`: the program once more, with what changed marked dynamic."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from torchsleuth.explain.break_text import Place
from torchsleuth.explain.explanation import Explanation, Frame
from torchsleuth.explain.gather import gather
from torchsleuth.explain.recompile_advice import kind_of
from torchsleuth.explain.recompiles import Recompile
from torchsleuth.explain.records import trace_files
from torchsleuth.explain.trial import Answer, Trial

SOURCES = "TORCH_COMPILE_DYNAMIC_SOURCES"


class Rerun(Protocol):
    def explained(self, trace: Path, extra: dict[str, str]) -> int | None: ...


def try_dynamic(
    found: Explanation, rerun: Rerun, trace: Path, session: Path, say: Callable[[str], None]
) -> Explanation:
    """Answer for each recompilation by a size or a number whether marking it dynamic stops it.

    The second run is traced to `trace`; what torchsleuth counts in it is in `session`.
    """
    sources = sorted({source for r in found.recompiles if (source := dynamic_source(r)) is not None})
    if not sources:
        return replace(found, notes=(*found.notes, "nothing was recompiled that marking dynamic could stop"))
    say("rerunning the program with what changed marked dynamic")
    code = rerun.explained(trace, {SOURCES: ",".join(sources)})
    traces = trace_files(trace) if trace.is_dir() else []
    then = gather(traces, session)
    ended = "was not seen to end" if code is None else f"ended with exit code {code}"
    note = f"the program was run once more, with {', '.join(sources)} marked dynamic, and {ended}"
    tried = tuple(replace(r, trial=trial(r, found, then, code)) if dynamic_source(r) else r for r in found.recompiles)
    return replace(found, recompiles=tried, notes=(*found.notes, note))


def dynamic_source(found: Recompile) -> str | None:
    """How torch names the value whose size or number changed, for TORCH_COMPILE_DYNAMIC_SOURCES; None if it is none."""
    name = _name(found)
    number = found.subject == name and all(kind_of(v) == "int" for v in found.values)
    return f"L['{name}']" if name.isidentifier() and (found.subject != name or number) else None


def _name(found: Recompile) -> str:
    return found.subject.partition(".size()")[0]


def trial(found: Recompile, first: Explanation, then: Explanation, code: int | None) -> Trial:
    """The answer of the second run `then`, which ended with `code`; None: it was not seen to end.

    A recompilation that was seen counts however the run ended.  That there was none is known only of a run that came
    as far as the first: it ended well, and called the function at least as often.
    """
    name = _name(found)
    same = [r for r in then.recompiles if r.function == found.function and _is_on(r, name)]
    times = sum(r.count for r in same)
    if times or any(r.limit_hit for r in same):
        return Trial(name, Answer.AGAIN, times)
    why = _why_not_known(found.function, first, then, code)
    return Trial(name, Answer.NOT_KNOWN, why_not_known=why) if why else Trial(name, Answer.NOT_AGAIN)


def _is_on(found: Recompile, name: str) -> bool:
    """Whether the guard is on the value, also where it is a bound: `x.size()[0] <= 4`."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", found.subject) is not None


def _why_not_known(function: Place, first: Explanation, then: Explanation, code: int | None) -> str:
    if code is None:
        return "that run was not seen to end"
    if code != 0:
        return f"that run ended early, with exit code {code}"
    if then.not_known:
        return f"of that run, {then.not_known[0]}"
    before, after = _frame(first, function), _frame(then, function)
    if after is None:
        return f"that run did not compile {function.function}"
    if before is None or before.calls is None or after.calls is None:
        return "how often it was called was not counted"
    if after.calls < before.calls:
        return f"that run called it {after.calls} times, the first {before.calls} times"
    return ""


def _frame(found: Explanation, place: Place) -> Frame | None:
    return next((frame for frame in found.frames if frame.place == place), None)
