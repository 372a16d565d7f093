"""How long one judgement takes: `python benchmarks/judge.py [--device cuda]`.

A graph of two operators, compiled by Inductor with a private, cold cache, judged five times by each provider; medians.
"Asked" is what the caller waits; "compiled" is the part in which the script ran with compilation on.  The spawned
judge is asked only when its next worker is warm; asked back to back it also waits for that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from torchsleuth.case.failure import Phase
from torchsleuth.judge import ForkedCudaJudge, ForkedJudge, Outcome, SpawnedJudge, Trial, Verdict, judge_environment
from torchsleuth.judge.verify import run_fresh

SOURCE = """import torch
def f(x):
    return torch.relu(x + 1)
x = torch.randn(3, device="DEVICE")
torch.compile(f)(x)
"""
WARM_UP = 12.0  # seconds that a worker gets to warm up between two questions


def measure(ask: Callable[[], Outcome], times: int, pause: float = 0.0) -> tuple[float, float]:
    asked, compiled = [], []
    for _ in range(times):
        time.sleep(pause)
        began = time.perf_counter()
        outcome = ask()
        asked.append(time.perf_counter() - began)
        compiled.append(outcome.seconds)
        if outcome.verdict is not Verdict.PASSED:
            raise SystemExit(f"the benchmark's own script failed: {outcome}")
    return statistics.median(asked), statistics.median(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    times, cuda = options.times, options.device == "cuda"
    source = SOURCE.replace("DEVICE", options.device)
    spawned = partial(SpawnedJudge, cuda=cuda)
    environment = judge_environment(os.environ)
    rows: list[tuple[str, float, float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, provider, pause in (
            ("forked", ForkedCudaJudge if cuda else ForkedJudge, 0.0),
            ("spawned, worker warm", spawned, WARM_UP),
            ("spawned, back to back", spawned, 0.0),
        ):
            began = time.perf_counter()
            with provider(sys.executable, environment, jobs=1, scratch=folder / title) as judge:
                judge.judge(Trial("import torch\n", folder))
                start = time.perf_counter() - began
                rows.append((title, start, *measure(lambda: judge.judge(Trial(source, folder)), times, pause)))
        script = folder / "fresh.py"
        script.write_text(source)

        def fresh() -> Outcome:
            return run_fresh(script, Phase.RUN_FORWARD, python=sys.executable, environment=environment, deadline=120.0)

        rows.append(("fresh process (verify)", 0.0, *measure(fresh, times)))
    print("| provider | start, once (s) | asked (s) | compiled (s) |\n|---|---|---|---|")
    for title, start, asked, compiled in rows:
        print(f"| {title} | {start:.1f} | {asked:.2f} | {compiled:.2f} |")


if __name__ == "__main__":
    main()
