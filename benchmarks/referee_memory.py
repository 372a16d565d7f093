"""What comparing numbers costs in memory: `python benchmarks/referee_memory.py`.

Each program runs under `torchsleuth run`, and with `--numerics`; its peak of resident memory is its own word
(`getrusage`).  What may come on top is one copy of what the largest graph gets and gives (gradients, too, where there
are any) and the same in float64, so three times its size; and all of it is freed before the next graph.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SIDE = 4096  # a matrix of 64 MB
MEGABYTES = SIDE * SIDE * 4 / 2**20
OWN = 16  # of the referee's code, and of the parts in which it compares

HEAD = f"""
import os, resource, torch
torch.manual_seed(0)
torch.set_num_threads(1)
side = {SIDE}

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(side, side) / side)
    def forward(self, x):
        return torch.tanh(x @ self.weight).softmax(-1).var(-1)  # rounds: all that the referee has is needed
"""
TAIL = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
open(os.environ["PEAK"], "w").write(str(peak))
"""


@dataclass(frozen=True)
class Program:
    name: str
    matrices: int  # that the largest graph gets and gives, gradients included
    text: str


PROGRAMS = (
    Program("weights, inference", 1, "f = torch.compile(Layer())\nwith torch.no_grad(): f(torch.rand(4, side))"),
    Program(
        "six graphs, inference",
        1,
        "layers = [Layer() for _ in range(6)]\nx = torch.rand(4, side)\nwith torch.no_grad():\n"
        "    for layer in layers: torch.compile(layer)(x)",
    ),
    Program("weights, training", 2, "f = torch.compile(Layer())\nf(torch.rand(4, side)).sum().backward()"),
    Program(
        "large result",
        2,
        "f = torch.compile(lambda x: x.softmax(-1).cumsum(-1).log())\nf(torch.rand(side, side))",
    ),
    Program(
        "buffer that is written",
        2,
        "memory = torch.zeros(side, side)\n"
        "f = torch.compile(lambda m, x: m.mul_(0.9).add_(x).sum())\nf(memory, torch.rand(side))",
    ),
)


def peak(program: Program, folder: Path, *before: str) -> float:
    """Megabytes."""
    script, told = folder / "program.py", folder / "peak"
    script.write_text(HEAD + program.text + TAIL)
    told.unlink(missing_ok=True)
    command = [*before, sys.executable, str(script)]
    done = subprocess.run(
        command, env={**os.environ, "PEAK": str(told)}, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode or not told.exists():
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return float(told.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose names hold this")
    options = parser.parse_args()
    print("| program | watched, MB | compared, MB | more, MB | may be | |\n|---|---|---|---|---|---|", flush=True)
    good = True
    for program in PROGRAMS:
        if options.only not in program.name:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            sleuth = [sys.executable, "-m", "torchsleuth", "run", "--out"]
            alone = peak(program, folder, *sleuth, str(folder / "watched"))
            compared = peak(program, folder, *sleuth, str(folder / "compared"), "--numerics")
            may = 3 * program.matrices * MEGABYTES + OWN
        fits = compared - alone <= may
        good &= fits
        cells = [program.name, *(f"{v:.0f}" for v in (alone, compared, compared - alone, may))]
        print("| " + " | ".join([*cells, "" if fits else "too much"]) + " |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
