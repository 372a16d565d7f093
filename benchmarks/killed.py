"""Kill the tool at random moments in each of its routes, give the same command again, and compare.

    python benchmarks/killed.py [--kills 5] [--seed 0] [--only ROUTE]... [--keep FOLDER]

A route is a way to reduce something: a graph, the program's own source, a script, whatever a command looks for, a graph
break.  For each, one run without a kill says what to expect.  Then the same command is started again in a new folder,
its whole process group is killed with SIGKILL at random moments of that run, and it is given once more until it ends.
A row says: how many judgements were made, how many of them twice, and whether the end is the same as without a kill.
A judgement of a `--check` command counts in the run that made it alone, so there a repetition is one within a run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

_LONGEST = 900.0  # seconds of one run
_GRAPH = """
    import torch

    def picky(gm, inputs):
        names = [str(n.target) for n in gm.graph.nodes]
        if any("relu" in n for n in names) and any("tanh" in n for n in names):
            raise ValueError("not both")
        return gm.forward

    def f(x):
        for _ in range(4):
            x = torch.sin(x) * 2
        x = torch.relu(x)
        for _ in range(4):
            x = torch.cos(x) + 1
        return torch.tanh(x)

    torch.compile(f, backend=picky)(torch.randn(16, 24))
"""
_SOURCE = """
    import math
    import torch

    SIZES = [4, 8]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0
            self.names = {}

        def forward(self, x):
            y = torch.sin(x) * self.scale
            z = y + math.sqrt(4)
            torch._dynamo.graph_break()
            return torch.cos(z)

    def main():
        torch.manual_seed(0)
        net = Net()
        for size in SIZES:
            print(torch.compile(net, backend="eager", fullgraph=True)(torch.randn(size)).sum())

    main()
"""
_WORKS = """
    import torch

    def f(x):
        for _ in range(5):
            x = torch.sin(x) + 1
        return torch.cos(torch.relu(x))

    torch.compile(f, backend="eager")(torch.randn(4, 4))
"""
_BREAKS = """
    import torch

    def helper(x):
        y = x + 1
        print("in the middle")
        return y * 2

    def f(x):
        for _ in range(2):
            x = torch.sin(x)
        return helper(x)

    torch.compile(f, backend="eager")(torch.randn(4))
"""


@dataclass(frozen=True)
class Route:
    name: str
    program: str
    command: tuple[str, ...]  # PROGRAM stands for its file; --out is added
    results: tuple[str, ...] = ("repro.py",)  # files that must be the same in the end
    remembered: bool = True  # by later runs

    def words(self, program: Path, out: Path) -> list[str]:
        first, *rest = (str(program) if word == "PROGRAM" else word for word in self.command)
        return [sys.executable, "-m", "torchsleuth", first, "--out", str(out), *rest]


ROUTES = (
    Route("graph", _GRAPH, ("run", sys.executable, "PROGRAM")),
    Route("source", _SOURCE, ("run", sys.executable, "PROGRAM")),
    Route("minimize SCRIPT", _SOURCE, ("minimize", "PROGRAM")),
    Route(
        "minimize --check", _WORKS, ("minimize", "--check", "grep -q torch.relu {} && exit 1 || exit 0", "PROGRAM"),
        remembered=False,
    ),
    Route(
        "explain --minimize", _BREAKS, ("explain", "--minimize", sys.executable, "PROGRAM"), ("examples/break-1.py",),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    route: str
    kills: int
    judged: int  # without a kill, for as many folders
    judged_in_all: int  # with kills, all runs together
    twice: int
    same_end: bool
    seconds: float

    @property
    def good(self) -> bool:
        return self.twice == 0 and self.same_end


def main() -> int:
    options = _options()
    place = Path(options.keep or tempfile.mkdtemp(prefix="torchsleuth-killed-"))
    place.mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'route':20} {'kills':>5} {'judged':>7} {'in all':>7} {'twice':>6}  end", flush=True)
    for route in ROUTES:
        if options.only and route.name not in options.only:
            continue
        moments = random.Random(f"{options.seed} {route.name}")
        row = _measured(route, place / re.sub(r"\W+", "-", route.name), options.kills, moments)
        rows.append(row)
        end = "the same" if row.same_end else "ANOTHER"
        print(
            f"{row.route:20} {row.kills:5} {row.judged:7} {row.judged_in_all:7} {row.twice:6}  {end}"
            f"  ({row.seconds:.0f} s without a kill)",
            flush=True,
        )
    return 0 if all(row.good for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5, help="for each route")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=[route.name for route in ROUTES])
    parser.add_argument("--keep", help="a folder for the programs and what was written")
    return parser.parse_args()


def _measured(route: Route, place: Path, kills: int, moments: random.Random) -> Row:
    place.mkdir()
    program = place / "program.py"
    program.write_text(dedent(route.program))
    began = time.monotonic()
    _run(route.words(program, place / "whole"), place, None)
    seconds = time.monotonic() - began
    whole = _results(route, place / "whole")
    judged = len(set(_keys(place / "whole")))

    done, twice, in_all, same, number = 0, 0, 0, True, 0
    while done < kills:  # a run that comes to its end before its moment is followed by one in another folder
        number += 1
        out = place / f"cut-{number}"
        cut = _cut(route, program, out, [moments.uniform(0.1, 0.8) * seconds for _ in range(kills - done)])
        done, twice, in_all = done + cut.kills, twice + cut.twice, in_all + cut.judged
        same = same and _results(route, out) == whole
        seconds *= 1.0 if cut.kills else 0.7  # caches are warm by now, or the machine is less busy
    return Row(route.name, done, judged * number, in_all, twice, same, seconds)


@dataclass(frozen=True)
class Cut:
    kills: int
    judged: int
    twice: int


def _cut(route: Route, program: Path, out: Path, moments: Sequence[float]) -> Cut:
    """One folder: killed after each of these many seconds, and started again until it ends."""
    kills, twice = 0, 0
    known: list[str] = []
    for patience in (*moments, None):
        ended = _run(route.words(program, out), out.parent, patience)
        new = _keys(out)[len(known) :]
        known += new
        twice += sum(times - 1 for times in Counter(new).values())
        twice += len(set(new) & set(known[: -len(new) or None])) if route.remembered else 0
        if ended:
            break
        kills += 1
    return Cut(kills, len(known), twice)


def _run(command: Sequence[str], place: Path, patience: float | None) -> bool:
    """Whether it came to its end; its whole process group is killed after `patience` seconds."""
    with (place / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(_LONGEST if patience is None else patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if patience is None:
                raise SystemExit(f"{' '.join(command)} did not end in {_LONGEST:.0f} s") from None
            return False
    return True


def _keys(out: Path) -> list[str]:
    found = []
    for journal in sorted(out.rglob("journal.jsonl")):
        for line in journal.read_text(errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if "key" in row:
                found.append(f"{row['setting']} {row['key']}")
    return found


def _results(route: Route, out: Path) -> list[str | None]:
    """Scripts as they are written, and the numbers of the reduction."""
    files = [(out / name).read_text() if (out / name).exists() else None for name in route.results]
    result = out / "result.json"
    numbers = json.loads(result.read_text()) if result.exists() else {}
    kept = [
        json.dumps([f["kind"], f["component"], f["repro"] and {**f["repro"], "path": ""}, f["reduction"]["ops_before"]])
        for f in numbers.get("failures", [])
    ]
    return [*files, *kept]


if __name__ == "__main__":
    sys.exit(main())
