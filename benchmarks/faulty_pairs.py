"""Two or three operators that are all needed, far apart in a model: `python benchmarks/faulty_pairs.py [--sample 12]`.

`torchsleuth.backends.faulty` is told to fail only where all of them occur, in the forward or in the backward;
`torchsleuth run` must end at a verified repro with no more operators than were named (an operator of the program may
stand for several of those that AOTAutograd makes of it, so there may be fewer).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from faulty_models import HERE, Graph, environment, operators
from models import chosen

DEFAULT = "bert gpt2 llama t5 vit convnext".split()
HEAD = "| model | where | needed | verdict | operators | form | lines | judged | to smallest | s |"
LIMIT = 1200.0


@dataclass(frozen=True)
class Fault:
    model: str
    where: str
    ops: tuple[str, ...]

    @property
    def arguments(self) -> str:
        return json.dumps({"op": list(self.ops), "kind": "compile-error", "where": self.where})


def spread(graphs: list[Graph], count: int, chance: random.Random) -> tuple[str, ...]:
    """Names of `count` operators, each first met in its own part of the largest graph."""
    calls = max(graphs, key=len)
    first: dict[str, int] = {}
    for place, (name, gives_tensor) in enumerate(calls):
        if gives_tensor:
            first.setdefault(name, place)
    order = sorted(first, key=first.__getitem__)
    parts = [order[len(order) * i // count : len(order) * (i + 1) // count] for i in range(count)]
    return tuple(chance.choice(part) for part in parts if part)


def measured(fault: Fault, out: Path, budget: float) -> tuple[str, bool]:
    command = [sys.executable, "-m", "torchsleuth", "run", "--budget", str(budget), "--out", str(out)]
    command += [sys.executable, str(HERE / "watched_program.py"), fault.model]
    began = time.monotonic()
    with (out.parent / f"{out.name}.log").open("wb") as log:
        subprocess.run(
            command, env=environment(FAULT=fault.arguments), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            cwd=out.parent, timeout=LIMIT, check=False,
        )  # fmt: skip
    result: dict[str, Any] = json.loads((out / "result.json").read_text()) if (out / "result.json").exists() else {}
    first = (result.get("failures") or [{}])[0]
    repro, reduction = first.get("repro") or {}, first.get("reduction") or {}
    good = result.get("verdict") == "failure" and repro.get("verified") is True and repro["ops"] <= len(fault.ops)
    cells = [fault.model, fault.where, " ".join(fault.ops), result.get("verdict", "nothing"), repro.get("ops")]
    cells += [repro.get("form"), repro.get("lines"), reduction.get("judged"), reduction.get("judged_to_smallest")]
    cells.append(f"{time.monotonic() - began:.0f}")
    return "| " + " | ".join(map(str, cells)) + " |" + ("" if good else "  <- not as it should be"), good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=DEFAULT)
    parser.add_argument("--where", nargs="*", default=["forward", "backward"], choices=["forward", "backward"])
    parser.add_argument("--sample", type=int, default=12)
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    plans = list(itertools.product([t.name for t in chosen(options.models)], options.where, (2, 3)))
    root = Path(tempfile.mkdtemp(prefix="faulty-pairs-"))
    print(f"outputs under {root}\n{HEAD}\n|" + "---|" * 10, flush=True)
    known: dict[str, dict[str, list[Graph]]] = {}
    right, asked = 0, chance.sample(plans, min(options.sample, len(plans)))
    for number, (model, where, count) in enumerate(asked, start=1):
        if model not in known:
            known[model] = operators(model)
        fault = Fault(model, where, spread(known[model][where], count, chance))
        text, good = measured(fault, root / f"{number}-{model}-{where}-{os.getpid()}", options.budget)
        right += good
        print(text, flush=True)
    print(f"\n{right} of {len(asked)} as they should be")


if __name__ == "__main__":
    main()
