"""Does a carried graph compile to the kernels that the program had?  `python benchmarks/kernels.py [--models bert t5]`.

Each tiny model is compiled by Inductor under torchsleuth's own hooks: for inference and for training, with static and
with dynamic shapes.  Every graph becomes a Case, goes to a folder and back, and is rendered as `torch.compile` over the
Dynamo graph (as `backend` where that form cannot hold it) and as the ATen graph handed to Inductor (`inner`); both
scripts run in processes of their own.  Compared are the C++ kernels that Inductor generates, as a multiset, names and
comments taken out; and, for `whole`, all of the generated code, wrapper and calls of ready-made kernels included, but
for the order of inputs.  No C++ is compiled: graphs run in eager meanwhile.  Ends with status 1 where a Case did not
come back as it went or a kernel differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import generated
from generated import Generated
from models import Tiny, chosen, loss

T = TypeVar("T")
MODES = ("inference", "training")
SHAPES = ("static", "dynamic")
LIMIT = 300  # seconds that one compilation may take


@dataclass
class Captured:
    """What a watched compilation left: scripts to run again, with the code that each must give."""

    nodes: int = 0
    graphs: int = 0
    aten: int = 0
    exact: bool = True  # every Case came back from its folder as it went
    codes: list[Generated] = field(default_factory=list)
    compiled: list[tuple[str, str]] = field(default_factory=list)  # compile id, script
    inner: list[tuple[str, bool, str]] = field(default_factory=list)  # compile id, backward, script
    trouble: list[str] = field(default_factory=list)
    alone: str = ""  # why the model itself, unwatched or not, does not compile here
    notes: list[str] = field(default_factory=list)  # graphs that took the form `backend`


@dataclass
class Row:
    name: str
    mode: str
    shapes: str
    captured: Captured
    compiled: Counts = field(default_factory=lambda: Counts())
    inner: Counts = field(default_factory=lambda: Counts())
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        c = self.captured
        if c.alone:
            return c.alone.startswith("InductorError")  # torch's own bug
        return bool(c.exact and c.graphs and not c.trouble and self.compiled.all_equal and self.inner.all_equal)

    def __str__(self) -> str:
        c = self.captured
        if c.alone:
            return f"| {self.name} | {self.mode} | {self.shapes} | does not compile: {c.alone.splitlines()[0][:160]} |"
        cells = [self.name, self.mode, self.shapes, c.graphs, c.nodes, "yes" if c.exact else "NO", self.compiled]
        return "| " + " | ".join(map(str, [*cells, self.inner, f"{self.seconds:.0f}"])) + " |"


@dataclass
class Counts:
    equal: int = 0
    kernels: int = 0
    whole: int = 0
    graphs: int = 0

    def add(self, original: Sequence[str], again: Sequence[str]) -> None:
        first: Counter[str] = sum((generated.kernels(code) for code in original), Counter())
        second: Counter[str] = sum((generated.kernels(code) for code in again), Counter())
        self.equal += (first & second).total()
        self.kernels += max(first.total(), second.total())
        left = Counter(map(generated.whole, original))
        self.whole += (left & Counter(map(generated.whole, again))).total()
        self.graphs += len(original)

    @property
    def all_equal(self) -> bool:
        return self.equal == self.kernels > 0

    def __str__(self) -> str:
        return f"{self.equal}/{self.kernels} | {self.whole}/{self.graphs}"


def apart(work: Callable[..., T], log: Path, *args: Any) -> T | str:
    """`work` in a forked process with its output in `log`; its result, or what it raised.  Ends after LIMIT seconds."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        signal.alarm(LIMIT)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            data = pickle.dumps(work(*args))
        except BaseException as error:
            traceback.print_exc()
            data = pickle.dumps(f"{type(error).__name__}: {error}"[:300])
        sys.stdout.flush()
        with os.fdopen(write, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(raw) if raw else f"the process died, or took more than {LIMIT} s"  # type: ignore[no-any-return]


def capture(tiny: Tiny, mode: str, shapes: str, place: Path) -> Captured:
    """Compiles the model under the hooks; runs in a process of its own."""
    import torch

    from torchsleuth.case import folder
    from torchsleuth.case.failure import Phase
    from torchsleuth.watch import capture as watching, guarded, hooks
    from torchsleuth.watch.session import Options, Outbox

    codes = generated.collect()
    guarded.log_to(place / "trouble.log")
    kept: dict[str, tuple[Any, Any, Path]] = {}
    case_of = watching.case_of

    def keep(record: Any, phase: Any, failure: Any, inputs: Any, where: Path, cap: int) -> Any:
        case = case_of(record, phase, failure, inputs, where, cap)
        # Dynamo may begin a frame anew ("0/0", then "0/0_1"): what it compiled last is what the program runs.
        kept[record.compile_id.split("_")[0]] = (record, case, where)
        return case

    watching.case_of = keep
    hooks.install(Outbox(place, Options(hang_after=0, dump_first=True)))
    model, inputs = tiny.build()
    compiled = torch.compile(model, dynamic=True if shapes == "dynamic" else None)
    if mode == "training":
        model.train()
        loss(compiled(**inputs)).backward()
    else:
        with torch.no_grad():
            compiled(**inputs)
    found = Captured(codes=codes, graphs=len(kept))
    for record, case, where in kept.values():
        found.nodes += len(case.graph.nodes)
        found.exact &= folder.load(where, ours=True) == case
        phase = Phase.RUN_BACKWARD if True in record.aten else Phase.RUN_FORWARD
        _render(found, case, phase, record.compile_id)
        for backward, sketch in record.aten.items():
            found.aten += 1
            again = place / f"aten-{found.aten}"
            folder.save(sketch, again)
            found.exact &= folder.load(again, ours=True) == sketch
            _render(found, sketch, Phase.RUN_BACKWARD if backward else Phase.RUN_FORWARD, record.compile_id)
    if (place / "trouble.log").exists():
        found.trouble.append((place / "trouble.log").read_text()[-2000:])
    return found


def _render(found: Captured, case: Any, phase: Any, compile_id: str) -> None:
    from torchsleuth.case.model import Level
    from torchsleuth.case.program import CannotRender, Form, render

    form = Form.INNER if case.level is Level.ATEN else Form.COMPILE
    source = ""
    for one in (form, Form.BACKEND) if form is Form.COMPILE else (form,):
        try:
            source = render(replace(case, phase=phase), one).source
            break
        except CannotRender as error:
            (found.notes if one is Form.COMPILE else found.trouble).append(f"{one.value} {compile_id}: {error}")
    if form is Form.INNER:
        found.inner.append((compile_id, phase.backward, source))
    else:
        found.compiled.append((compile_id, source))


def compile_again(script: Path) -> list[Generated]:
    """Runs a rendered script; the code that Inductor gave."""
    codes = generated.collect()
    os.chdir(script.parent)
    runpy.run_path(str(script), run_name="__main__")
    return codes


def measure(tiny: Tiny, mode: str, shapes: str, place: Path) -> Row:
    began = time.monotonic()
    place.mkdir(parents=True)
    captured = apart(capture, place / "original.log", tiny, mode, shapes, place)
    if isinstance(captured, str):
        row = Row(tiny.name, mode, shapes, Captured(alone=captured))
        row.seconds = time.monotonic() - began
        return row
    row = Row(tiny.name, mode, shapes, captured)
    for number, (compile_id, source) in enumerate(captured.compiled):
        codes = [g.code for g in captured.codes if g.compile_id == compile_id]
        row.compiled.add(codes, _again(source, place / f"compile-{number}", codes, captured))
    for number, (compile_id, backward, source) in enumerate(captured.inner):
        codes = [g.code for g in captured.codes if (g.compile_id, g.backward) == (compile_id, backward)]
        row.inner.add(codes, _again(source, place / f"inner-{number}", codes, captured))
    row.seconds = time.monotonic() - began
    return row


def _again(source: str, place: Path, original: Sequence[str], captured: Captured) -> list[str]:
    place.mkdir()
    (place / "repro.py").write_text(source)
    codes = apart(compile_again, place / "log", place / "repro.py") if source else "not rendered"
    if isinstance(codes, str):
        captured.trouble.append(f"{place.name}: {codes}")
        return []
    for side, texts in (("original", original), ("again", [g.code for g in codes])):
        for number, code in enumerate(texts):
            (place / f"{side}-{number}.py").write_text(code)
    return [g.code for g in codes]


def warm() -> None:
    """All that each process needs, once, before the forks: no parallel region, no backward."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import transformers
    from transformers import modeling_outputs  # noqa: F401

    import torchsleuth.case.program.compiled
    import torchsleuth.case.program.handed
    import torchsleuth.watch.hooks  # noqa: F401
    from torchsleuth.judge.warm import warm_up

    transformers.logging.set_verbosity_error()
    warm_up(forks=True, cuda=False)


HEAD = (
    "| model | mode | shapes | graphs | nodes | text exact | kernels, compile | whole | kernels, inner | whole | s |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=[], help="which of the zoo (default: all)")
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--shapes", nargs="*", default=SHAPES, choices=SHAPES)
    parser.add_argument("--keep", type=Path, help="folder for Cases, scripts and code (default: a temporary one)")
    options = parser.parse_args()
    warm()
    total, inner = Counts(), Counts()
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        place = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(HEAD)
        for tiny in chosen(options.models):
            for mode in options.modes:
                for shapes in options.shapes:
                    row = measure(tiny, mode, shapes, place / f"{tiny.name}-{mode}-{shapes}")
                    rows.append(row)
                    print(row, flush=True)
    for mine, name in ((total, "compiled"), (inner, "inner")):
        for row in rows:
            for part in ("equal", "kernels", "whole", "graphs"):
                setattr(mine, part, getattr(mine, part) + getattr(getattr(row, name), part))
    good = all(row.good for row in rows)
    rows = [row for row in rows if not row.captured.alone]
    exact = sum(row.captured.exact for row in rows)
    print(f"| all | | | | | {exact}/{len(rows)} | {total} | {inner} | {sum(r.seconds for r in rows):.0f} |")
    for row in rows:
        for line in (*row.captured.notes, *row.captured.trouble):
            print(f"\n{row.name} {row.mode} {row.shapes}: {line}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
