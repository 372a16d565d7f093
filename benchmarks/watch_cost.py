"""What being watched costs a program that does not fail: `python benchmarks/watch_cost.py [--models bert] [--times 5]`.

Measured is the program alone (watched_program.py: a tiny model trained for 31 steps): it is started with the variable
that `torchsleuth run` sets, or without it, in turns, so torchsleuth's own start and its work after the program do not
count. Wall time, processor time (children included) and, from inside, peak memory are of the whole process, imports
included; "first" is the processor time of the step that compiles, "step" the median of the others. Ratios of medians,
watched / unwatched; goal: at most 1.05; "least cpu" is the ratio of the smallest processor times, which other work on
the machine disturbs least. Both read one Inductor cache that an unwatched run has filled, so a watched
program that missed the cache would show; `--cold N` adds runs with empty caches. Once per model the program runs under
`torchsleuth run`: the verdict must be ok. Results must be the same to the bit, and no file may be left in the working
or the temporary folder that an unwatched run does not leave.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from models import chosen

HERE = Path(__file__).resolve().parent
PROGRAM = [sys.executable, str(HERE / "watched_program.py")]
DEFAULT = "bert deberta gpt2 llama t5 bart vit convnext clip wav2vec2 mamba mixtral".split()
MEASURES = ("wall", "cpu", "peak", "first", "step")


@dataclass(frozen=True)
class Run:
    hash: str
    wall: float
    cpu: float
    peak: float
    first: float
    step: float


class Place:
    """Folders of one model: where it runs, its temporary files, its caches."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.work, self.temporary = root / "work", root / "tmp"
        self.cache, self.sessions = root / "cache" / name, root / "sessions" / name
        shutil.rmtree(self.sessions, ignore_errors=True)  # of a run before, where the folder was kept
        for folder in (self.work, self.temporary, self.cache, self.sessions):
            folder.mkdir(parents=True, exist_ok=True)
        self._number = 0

    def environment(self, cache: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH", "FAULT"))}
        return {
            **kept, "TMPDIR": str(self.temporary), "TORCHINDUCTOR_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def run(self, *, watched: bool, cold: bool = False) -> Run:
        self._number += 1
        cache = self.cache.with_name(f"{self.name}-{self._number}") if cold else self.cache
        environment = self.environment(cache)
        if watched:
            session = self.sessions / str(self._number)
            session.mkdir()
            environment["TORCHSLEUTH_WATCH"] = str(session)
        began = time.perf_counter()
        process = subprocess.Popen(
            [*PROGRAM, self.name], cwd=self.work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.name} ended with {process.returncode}")
        if watched and not any(session.glob("processes/*/events.jsonl")):
            raise SystemExit(f"{self.name} was not watched")
        if watched and (session / "trouble.log").exists():
            print(f"trouble while {self.name} was watched:\n{(session / 'trouble.log').read_text()}", file=sys.stderr)
        if cold:
            shutil.rmtree(cache, ignore_errors=True)
        return Run(wall=wall, cpu=usage.ru_utime + usage.ru_stime, **json.loads(said.splitlines()[-1]))

    def verdict(self) -> tuple[str, str]:
        """Of `torchsleuth run`, with the hash that the program printed under it."""
        out = self.sessions / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "torchsleuth", "run", "--out", str(out), *PROGRAM, self.name]
        done = subprocess.run(
            command, cwd=self.work, env=self.environment(self.cache), capture_output=True, text=True, check=False
        )
        said = [json.loads(line)["hash"] for line in done.stdout.splitlines() if line.startswith('{"hash"')]
        return json.loads((out / "result.json").read_text())["verdict"], said[0] if said else "nothing"

    def files(self) -> set[str]:
        found = [p.relative_to(root.parent) for root in (self.work, self.temporary) for p in root.rglob("*")]
        return {str(p) for p in found}


def ratio(watched: Sequence[Run], plain: Sequence[Run], what: str) -> str:
    above, below = (statistics.median(getattr(run, what) for run in runs) for runs in (watched, plain))
    return f"{above / below:.3f}"


def measure(place: Place, times: int, cold: int) -> str:
    filled = place.run(watched=False)
    before = place.files()
    verdict, said = place.verdict()
    plain: list[Run] = []
    watched: list[Run] = []
    for turn in range(times):
        for mine in (False, True) if turn % 2 == 0 else (True, False):
            (watched if mine else plain).append(place.run(watched=mine))
    left = sorted(place.files() - before)
    pairs = [(place.run(watched=False, cold=True), place.run(watched=True, cold=True)) for _ in range(cold)]
    hashes = {filled.hash, said, *(run.hash for run in (*plain, *watched)), *(r.hash for p in pairs for r in p)}
    cells = [place.name, verdict, "same" if len(hashes) == 1 else "DIFFERENT", ", ".join(left) or "none"]
    cells += [f"{statistics.median(run.wall for run in plain):.1f}"]
    cells += [ratio(watched, plain, what) for what in MEASURES]
    cells += [f"{min(run.cpu for run in watched) / min(run.cpu for run in plain):.3f}"]
    if pairs:
        cells += [ratio([w for _, w in pairs], [p for p, _ in pairs], what) for what in ("wall", "cpu", "peak")]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=DEFAULT)
    parser.add_argument("--times", type=int, default=5, help="runs of each kind, in turns")
    parser.add_argument("--cold", type=int, default=1, help="runs of each kind with empty caches")
    parser.add_argument("--keep", type=Path, help="folder for caches, so that a second run finds them filled")
    options = parser.parse_args()
    root = options.keep or Path(tempfile.mkdtemp(prefix="watch-cost-"))
    root.mkdir(parents=True, exist_ok=True)
    heads = ["model", "verdict", "results", "files left", "wall, s", *MEASURES, "least cpu"]
    heads += ["cold wall", "cold cpu", "cold peak"] if options.cold else []
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    try:
        for tiny in chosen(options.models):
            print(measure(Place(root.resolve(), tiny.name), options.times, options.cold), flush=True)
    finally:
        if options.keep is None:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
