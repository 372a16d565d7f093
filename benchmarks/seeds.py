"""How a script without a seed draws random numbers: in trials of one judge, and in fresh processes.

    python benchmarks/seeds.py [--trials 8]

Then: how often a failure that shows in a given share of runs passes three fresh runs, ten fresh runs, and twenty seeds
of the judge followed by ten fresh runs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.trial import Trial

_SCRIPT = "import torch\nprint('drawn', torch.randn(1).item())\n"
_RATES = (0.5, 0.8, 0.9, 0.95, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=8)
    trials = parser.parse_args().trials
    scratch = Path(tempfile.mkdtemp(prefix="torchsleuth-seeds-"))
    environment = judge_environment(os.environ)
    place = scratch / "judge"
    judge = open_judge({"cpu"}, python=sys.executable, environment=environment, scratch=place, path=(), jobs=1)
    asked = []
    for number in range(trials):
        (scratch / str(number)).mkdir()
        asked.append(Trial(_SCRIPT, scratch / str(number)))
    with judge:
        judged = [re.findall(r"drawn (\S+)", outcome.output)[-1] for outcome in judge.judge_all(asked)]
    command = [sys.executable, "-c", _SCRIPT]
    fresh = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[-1]
        for _ in range(trials)
    ]
    print(f"different numbers in {trials} trials of one judge: {len(set(judged))}")
    print(f"different numbers in {trials} fresh processes: {len(set(fresh))}")
    print("fails in   passes 3 fresh   10 fresh   20 seeds and 10 fresh")
    for rate in _RATES:
        print(f"{rate:7.0%} {rate**3:16.1%} {rate**10:10.1%} {rate**30:23.1%}")


if __name__ == "__main__":
    main()
