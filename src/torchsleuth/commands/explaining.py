"""`torchsleuth explain`, whole: run the program under torch's trace, or read a trace, and write what it says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchsleuth import __version__
from torchsleuth.case import files
from torchsleuth.commands import going_on
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.errors import BadUsage, CommandNotFound
from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.explanation import Explanation
from torchsleuth.explain.gather import gather
from torchsleuth.explain.records import holds_records, trace_files
from torchsleuth.explain.times import write_csv
from torchsleuth.investigate.own_faults import Faults
from torchsleuth.watch import launcher, missing_hooks
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Options, processes
from torchsleuth.write.explained import text
from torchsleuth.write.page_explain import explain_page

if TYPE_CHECKING:
    from torchsleuth.judge.engines import Engines

TRACE = "TORCH_TRACE"
Say = Callable[[str], None]
Examples = Mapping[str, Mapping[int, dict[str, Any]]]


@dataclass(frozen=True)
class Explained:
    data: dict[str, Any]  # explain.json
    out: Path
    watched: bool
    ended: Ended | None  # None: a trace was read, no program was run

    @property
    def exit_status(self) -> int:
        if not self.watched:
            return 2
        return 4 if self.ended is not None and self.ended.exit_code and not self.ended.stopped else 0


def explain_command(
    command: Sequence[str],
    out: Path | None,
    say: Say,
    *,
    fullgraph: bool = False,
    try_dynamic: bool = False,
    ir: bool = False,
    minimize: bool = False,
    budget: float = 600.0,
    jobs: int = 2,
    engines: Engines | None = None,
) -> Explained:
    trace = _trace_given(command)
    if trace is not None:
        if minimize:
            raise BadUsage("A trace holds no program to make smaller: give --minimize the command that made it.")
        return _explain_trace(trace, out)
    from torchsleuth.judge.engines import LOCAL  # loads what judges, which reading a trace does not need

    engines = engines or LOCAL
    words = launcher.resolve(command)
    out = make_output_folder(out, words, ["explain", *command] if minimize else ())
    session = out / "logs" / "watch"
    session.mkdir(parents=True)
    theirs = os.environ.get(TRACE)  # a program that is traced already goes on to be, where its user wants it
    folder = Path(theirs) if theirs else out / "logs" / "trace"
    before = set(trace_files(folder)) if folder.is_dir() else set()
    stop = (lambda: _broke(session)) if fullgraph else None
    try:
        ended = engines.watch(
            words, session, Options(explain=True, explain_ir=ir), extra={TRACE: str(folder.resolve())}, tick=stop
        )
    except CommandNotFound:
        shutil.rmtree(out, ignore_errors=True)  # nothing of the run stays
        raise
    say("reading what torch's trace holds of it")
    traces = [p for p in trace_files(folder) if p not in before] if folder.is_dir() else []
    found = gather(traces, session, out, _notes(ended, session))
    made: Examples = {}
    faults = Faults(out)
    with Interruption() as patience:
        if try_dynamic and not ended.stopped:
            # These load what judges, which reading a trace does not need.
            from torchsleuth.commands.trying_dynamic import try_dynamic as attempt
            from torchsleuth.investigate.rerun import Again

            again = Again(words, out / "logs", ended.seconds, patience.begin(budget), engines=engines)
            patience.ends(again.end)
            tried = partial(attempt, found, again, out / "logs" / "trace-dynamic", session / "again-explain", say)
            found = faults.keep(found, "running the program once more", tried)
        watched = bool(found.frames or found.outside)
        if not watched:
            found = replace(found, notes=(*found.notes, _why_nothing(session)))
        if minimize and not ended.stopped and not ended.interrupted:
            from torchsleuth.commands.examples import Wish, examples  # and all that judges: likewise

            wish = Wish(patience.begin(budget).left(), jobs, patience.stopped.is_set, patience.ends, say, engines)
            making = partial(examples, found, list(processes(session)), ended.seconds, out, wish)
            made = faults.keep(made, "making small scripts", making)
    found = replace(found, notes=(*found.notes, *faults.notes))
    explained = _write(found, command, ended.exit_code, out, watched, ended, made)
    if minimize and not patience.stopped.is_set():
        going_on.end(out, ())
    return explained


def _trace_given(command: Sequence[str]) -> Path | None:
    """The folder or the file of a trace that the user names in place of a program."""
    path = Path(command[0])
    if len(command) != 1 or path.suffix == ".py":
        return None
    if path.is_dir() or (path.is_file() and (holds_records(path) or not os.access(path, os.X_OK))):
        return path
    return None


def _traces_in(place: Path) -> list[Path]:
    """In a folder, the files that torch wrote; where it has none, whatever holds a trace under another name."""
    traces = trace_files(place)
    if place.is_dir() and not traces:
        traces = sorted(path for path in place.rglob("*") if path.is_file())
    return [path for path in traces if holds_records(path) or path.stat().st_size == 0]


def _explain_trace(place: Path, out: Path | None) -> Explained:
    traces = _traces_in(place)
    if not traces:
        raise BadUsage(f"{place} holds no trace. Make one with TORCH_TRACE=DIR python ..., or give the program.")
    out = make_output_folder(out, [place.name])
    found = gather(traces, None, out, ("made from a trace: how often a break is hit is not in it",))
    watched = bool(found.frames or found.outside)
    if not watched:
        found = replace(found, notes=(*found.notes, "the trace holds no compilation"))
    return _write(found, (str(place),), None, out, watched, None, {})


def _write(
    found: Explanation,
    command: Sequence[str],
    code: int | None,
    out: Path,
    watched: bool,
    ended: Ended | None,
    made: Examples,
) -> Explained:
    data = to_json(found, version=__version__, command=command, exit_code=code)
    for kind in ("breaks", "recompiles"):
        for number, entry in enumerate(data[kind]):
            entry["example"] = made.get(kind, {}).get(number)
    files.write_json(out / "explain.json", data)
    write_csv(out / "compile_times.csv", _rows(data))
    files.write_text(out / "explain.txt", "\n".join(text(data)) + "\n")
    files.write_text(out / "report.html", explain_page(data))
    return Explained(data, out, watched, ended)


def _rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        {"function": f["function"], "source": f["source"], "graphs": f["graphs"], "compiles": f["compiles"],
         "seconds": f["seconds"], **{f"{p}_seconds": s for p, s in f["phases"].items()}}
        for f in sorted(data["frames"], key=lambda f: -float(f["seconds"]))
    ]  # fmt: skip
    return rows or [{"function": "", "source": "", "graphs": 0, "compiles": 0, "seconds": 0.0}]


def _broke(session: Path) -> bool:
    return any(process.of("break") for process in processes(session))


def _notes(ended: Ended, session: Path) -> list[str]:
    found = []
    if ended.stopped:
        found.append("the program was ended at its first graph break, as --fullgraph asks")
    elif ended.interrupted:
        found.append("the program was interrupted (Ctrl-C): this is what it did until then")
    elif ended.exit_code:
        found.append(f"the program ended with {ended.exit_code}: this is what it did until then")
    trouble = session / "trouble.log"
    text = trouble.read_text(encoding="utf-8", errors="replace") if trouble.exists() else ""
    found += missing_hooks.messages(text)
    if missing_hooks.other_trouble(text):
        found.append(
            "torchsleuth had trouble of its own while watching; see logs/watch/trouble.log, and please report it"
        )
    return found


def _why_nothing(session: Path) -> str:
    if not any(True for _ in processes(session)):
        return (
            "nothing was seen: no process of the program imported torch with torchsleuth installed beside it; "
            "install torchsleuth into the Python that the program runs"
        )
    return "nothing was seen: the program imported torch, but torch's trace of it holds no compilation"
