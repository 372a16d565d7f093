"""Does `torchsleuth.explain` agree with itself and with torch?  `python benchmarks/explain_models.py [--models bert]`.

Each tiny model (models.py) is explained twice and by torch._dynamo.explain.  Graphs must be the same number all three
times, and ours must be alike both times in breaks, lines and operators too.  torch counts calls of functions alone as
operators, so its number is at most ours.  Status 1 where something differs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from models import chosen

DEFAULT = "bert deberta gpt2 llama t5 bart vit convnext clip wav2vec2 mamba mixtral".split()


def facts(found: Any) -> tuple[Any, ...]:
    breaks = tuple((b["reason"], b["source"], b["count"]) for b in found.break_reasons)
    return found.graph_count, found.op_count, breaks, tuple(r["cause"] for r in found.recompiles)


def main() -> int:
    import torch

    import torchsleuth

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=DEFAULT)
    warnings.simplefilter("ignore")
    wrong = 0
    print(f"{'model':12} {'graphs':>6} {'breaks':>6} {'ops':>5} {'torch: graphs':>14} {'ops':>5} {'alike':>6} {'s':>6}")
    for tiny in chosen(parser.parse_args().models):
        model, inputs = tiny.build()
        began = time.monotonic()
        first, again = (torchsleuth.explain(model, backend="eager")(**inputs) for _ in range(2))
        torch._dynamo.reset()
        torchs = torch._dynamo.explain(model)(**inputs)
        alike = facts(first) == facts(again) and first.graph_count == torchs.graph_count
        alike = alike and first.op_count >= torchs.op_count and first.op_count == sum(map(len, first.ops_per_graph))
        wrong += not alike
        ours = f"{first.graph_count:>6} {first.break_count:>6} {first.op_count:>5}"
        theirs = f"{torchs.graph_count:>14} {torchs.op_count:>5}"
        seconds = time.monotonic() - began
        print(f"{tiny.name:12} {ours} {theirs} {'yes' if alike else 'NO':>6} {seconds:>6.1f}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
