"""Are right models right under every debugging backend?  `python benchmarks/backends.py [--models bert]`.

Each of twelve tiny models runs forward and backward under each backend, and `torchsleuth.check` has the referee compare
it with eager: outputs, buffers, gradients.  One row a backend; status 1 where a model was called wrong, or a backend or
one of its checks raised.  Graphs that a backend says it cannot take are counted apart.  `together` is every check at
once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from models import chosen

import torchsleuth
from torchsleuth.backends import compose, debugging
from torchsleuth.backends.recipes import RECIPES

MODELS = "bert deberta gpt2 llama t5 bart vit convnext clip wav2vec2 mamba mixtral".split()
TOGETHER = compose("sleuth_aot_decomp", "sleuth_aot_min_cut", "sleuth_fake", "sleuth_schema")
BACKENDS: dict[str, Any] = {**{name: name for name in RECIPES}, "together": TOGETHER}


def verdict_of(model: Any, inputs: dict[str, Any], backend: Any) -> tuple[str, str]:
    torch.compiler.reset()
    try:
        verdict = torchsleuth.check(model, compile={"backend": backend}, **inputs)
    except Exception as error:
        text = next((line for line in str(error).splitlines() if ": " in line), str(error))
        refused = "NotScriptable" in str(error) or "NotTraceable" in str(error)
        kind = "refused" if refused else "raised"
        return kind, f"{type(error).__name__}: {text[:200]}"
    if verdict:
        return "right", ""
    first = verdict.wrong[0]
    return "WRONG", f"{len(verdict.wrong)} of {verdict.report.compared}: {first.path}: {first.how}: {first.text}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--backends", nargs="*", choices=list(BACKENDS), default=list(BACKENDS))
    options = parser.parse_args()
    debugging.register()
    found: dict[str, list[tuple[str, str, str, float]]] = {name: [] for name in options.backends}
    for tiny in chosen(options.models):
        model, inputs = tiny.build()
        for name in options.backends:
            began = time.perf_counter()
            kind, text = verdict_of(model, inputs, BACKENDS[name])
            found[name].append((tiny.name, kind, text, time.perf_counter() - began))
            if kind != "right":
                print(f"{tiny.name} {name}: {kind}: {text}", file=sys.stderr, flush=True)
        print(f"{tiny.name} done", file=sys.stderr, flush=True)
    print("| backend | right | wrong | raised | refused | s, median |\n|---|---|---|---|---|---|")
    for name, rows in found.items():
        kinds = [kind for _, kind, _, _ in rows]
        counts = [str(kinds.count(kind)) for kind in ("right", "WRONG", "raised", "refused")]
        print("| " + " | ".join([name, *counts, f"{statistics.median(r[3] for r in rows):.1f}"]) + " |")
    return int(any(kind in ("WRONG", "raised") for rows in found.values() for _, kind, _, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
