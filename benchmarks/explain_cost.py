"""What `torchsleuth explain` costs a program that compiles for long: `python benchmarks/explain_cost.py [--model t5]`.

The program (watched_program.py: a tiny model trained for 31 steps) with empty caches, alone and under `torchsleuth
explain`, in turns; wall time of the whole command, the page included.  Goal: a ratio of medians of at most 1.10.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def wall(command: list[str]) -> tuple[float, str]:
    """Seconds, and what it prints; its caches and its folder are its own."""
    with tempfile.TemporaryDirectory(prefix="explain-cost-") as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="t5")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    program = [sys.executable, str(HERE / "watched_program.py"), given.model]
    explain = [sys.executable, "-m", "torchsleuth", "explain", "--json", "--out", "explained", *program]
    alone, explained = [], []
    print("| | alone, s | explained, s | ratio |\n|---|---|---|---|")
    for number in range(given.times):
        alone.append(wall(program)[0])
        seconds, text = wall(explain)
        explained.append(seconds)
        print(f"| {number + 1} | {alone[-1]:.1f} | {seconds:.1f} | {seconds / alone[-1]:.3f} |", flush=True)
    a, b = statistics.median(alone), statistics.median(explained)
    print(f"| median | {a:.1f} | {b:.1f} | {b / a:.3f} |")
    found = json.loads(text[text.index("\n{") :])
    compiling = sum(frame["seconds"] for frame in found["frames"])
    print(f"\n{given.model}: {found['graph_count']} graphs, {compiling:.0f} s of compiling in the last")
    return 0


if __name__ == "__main__":
    sys.exit(main())
