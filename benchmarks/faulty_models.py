"""Planted faults in real models, whole: `python benchmarks/faulty_models.py [--sample 24 | --all]`.

`torchsleuth.backends.faulty` is told to fail at a random operator (seeded) of a tiny model, in one of five ways, in the
forward or in the backward; `torchsleuth run --no-minimize` must find it, show that it fails alone and verify the repro,
leave no process behind and need less than 2 GB itself.  Which operators a model has is asked in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent))

from models import chosen

HERE = Path(__file__).resolve().parent
DEFAULT = "bert deberta gpt2 llama t5 bart vit convnext clip wav2vec2 mamba mixtral".split()
KINDS = ("compile-error", "runtime-error", "crash", "hang", "out-of-memory")
WHERE = ("forward", "backward")
MARK = "FAULTY_MODELS_RUN"  # in the environment of all that one run starts
LIMIT = 1800.0
HEAD = "| model | kind | where | operator | verdict | found | verified | form | left behind | tool, MB | s |"

_OPERATORS = """
import json, sys
import torch
from torchsleuth import torch_api
from torchsleuth.backends.faulty_match import bare_name
from models import ZOO, loss
names = {"forward": [], "backward": []}
def note(where):
    def change(graph):
        # A fault needs a tensor to stand behind.
        calls = [n for n in graph.graph.nodes if n.op == "call_function"]
        names[where].append([(bare_name(n), isinstance(n.meta.get("val"), torch.Tensor)) for n in calls])
        return graph
    return change
model, inputs = ZOO[sys.argv[1]].build()
model.train()
run = torch.compile(model, backend=lambda g, x: torch_api.aot_eager_with(g, x, note("forward"), note("backward")))
loss(run(**inputs)).backward()
print(json.dumps(names))
"""


@dataclass(frozen=True)
class Fault:
    model: str
    kind: str
    where: str
    op: str = ""
    nth: int = 0

    @property
    def arguments(self) -> str:
        return json.dumps({"op": self.op, "kind": self.kind, "where": self.where, "nth": self.nth})


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH")}
    path = os.pathsep.join(filter(None, [str(HERE), kept.get("PYTHONPATH", "")]))
    return {**kept, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path, **extra}


Graph = list[tuple[str, bool]]  # operators in order, and whether each gives a tensor


def operators(model: str) -> dict[str, list[Graph]]:
    done = subprocess.run(
        [sys.executable, "-c", _OPERATORS, model], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the operators of {model} could not be listed:\n{done.stderr[-2000:]}")
    found: dict[str, list[Graph]] = json.loads(done.stdout.splitlines()[-1])
    return found


def placed(fault: Fault, graphs: dict[str, list[Graph]], seed: int) -> Fault:
    """The fault at a random operator of the largest graph: each of its calls is as likely as any other."""
    chance = random.Random(f"{seed} {fault}")
    calls = max(graphs[fault.where], key=len)
    at = chance.choice([i for i, (_, gives_tensor) in enumerate(calls) if gives_tensor])
    name = calls[at][0]
    return Fault(fault.model, fault.kind, fault.where, name, sum(other == name for other, _ in calls[:at]))


@dataclass
class Watched:
    """A run of the tool, with its own peak memory and what it left behind."""

    seconds: float = 0.0
    peak: int = 0
    left: int = 0
    ended: bool = True


def run_tool(fault: Fault, out: Path, log: Path) -> Watched:
    mark = out.name
    command = [sys.executable, "-m", "torchsleuth", "run", "--no-minimize", "--out", str(out)]
    command += ["--hang-after", "5"] if fault.kind == "hang" else []
    command += [sys.executable, str(HERE / "watched_program.py"), fault.model]
    told = Watched()
    began = time.monotonic()
    with log.open("wb") as file:
        tool = psutil.Popen(
            command, env=environment(FAULT=fault.arguments, **{MARK: mark}), stdout=file, stderr=file,
            stdin=subprocess.DEVNULL, cwd=out.parent,
        )  # fmt: skip
        while tool.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                told.peak = max(told.peak, tool.memory_info().rss)
            if time.monotonic() - began > LIMIT:
                told.ended = False
                tool.kill()
            time.sleep(0.1)
    told.seconds = time.monotonic() - began
    time.sleep(1.0)
    behind = marked(mark)
    told.left = len(behind)
    for process in behind:  # each is one that this run started: it carries the run's own mark
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return told


def marked(mark: str) -> list[psutil.Process]:
    """Processes, orphans too, whose environment says that this run started them."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def row(fault: Fault, out: Path, told: Watched) -> tuple[str, bool]:
    result: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        result = json.loads((out / "result.json").read_text())
    first = (result.get("failures") or [{}])[0]
    repro = first.get("repro") or {}
    verdict = result.get("verdict", "nothing") if told.ended else "no end"
    good = verdict == "failure" and first.get("kind") == fault.kind and repro.get("verified") is True
    good = good and not told.left and told.peak < 2 * 10**9
    runs = f"{repro.get('failed_runs', 0)}/{repro.get('runs', 0)}" if repro else "no"
    phase = f"{first.get('kind', '')} {first.get('phase', '')}"
    cells = [fault.model, fault.kind, fault.where, f"{fault.op} #{fault.nth}", verdict, phase]
    cells += [f"{'yes' if repro.get('verified') else 'NO'} {runs}", repro.get("form", ""), told.left]
    cells += [f"{told.peak / 1e6:.0f}", f"{told.seconds:.0f}"]
    return "| " + " | ".join(map(str, cells)) + " |" + ("" if good else "  <- not as it should be"), good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=DEFAULT)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--where", nargs="*", default=WHERE, choices=WHERE)
    parser.add_argument("--sample", type=int, default=24)
    parser.add_argument("--all", action="store_true", help="every model with every kind, forward and backward")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for what torchsleuth wrote (default: a temporary one)")
    options = parser.parse_args()
    faults = [
        Fault(t.name, kind, where)
        for t, kind, where in itertools.product(chosen(options.models), options.kinds, options.where)
    ]
    if not options.all and options.sample < len(faults):
        faults = spread(faults, options.sample, options.seed)
    root = options.keep or Path(tempfile.mkdtemp(prefix="faulty-models-"))
    root.mkdir(parents=True, exist_ok=True)
    print(HEAD + "\n|" + "---|" * 11, flush=True)
    names: dict[str, dict[str, list[Graph]]] = {}
    right = 0
    for number, bare in enumerate(faults, start=1):
        if bare.model not in names:
            names[bare.model] = operators(bare.model)
        fault = placed(bare, names[bare.model], options.seed)
        out = root.resolve() / f"{number}-{fault.model}-{fault.kind}-{fault.where}-{os.getpid()}"
        text, good = row(fault, out, run_tool(fault, out, root / f"{out.name}.log"))
        right += good
        print(text, flush=True)
    print(f"\n{right} of {len(faults)} as they should be")
    if options.keep is None:
        shutil.rmtree(root, ignore_errors=True)


def spread(faults: list[Fault], size: int, seed: int) -> list[Fault]:
    """A sample that takes the kinds and places in turn, models at random."""
    chance = random.Random(seed)
    shuffled = chance.sample(faults, len(faults))
    groups = {pair: [f for f in shuffled if (f.kind, f.where) == pair] for pair in {(f.kind, f.where) for f in faults}}
    order = [f for round_ in itertools.zip_longest(*(groups[p] for p in sorted(groups))) for f in round_ if f]
    return order[:size]


if __name__ == "__main__":
    main()
