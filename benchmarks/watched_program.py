"""The program that is watched: `python watched_program.py MODEL` trains a tiny model for a few steps.

It prints one line of JSON: a hash of outputs and gradients, processor seconds of the first step and (median) of the
later ones, its own peak memory in bytes.  With FAULT set to the arguments of `torchsleuth.backends.faulty`, as JSON,
its backend is that one, and it ends however that ends it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from models import ZOO, loss, tensors

STEPS = 30


def step(model: Any, compiled: Any, inputs: dict[str, Any]) -> tuple[list[Any], float]:
    torch.manual_seed(2)  # dropout
    model.zero_grad()
    began = time.process_time()
    output = compiled(**inputs)
    loss(output).backward()
    seconds = time.process_time() - began
    return [*tensors(output), *(p.grad for p in model.parameters() if p.grad is not None)], seconds


def backend() -> Any:
    fault = os.environ.get("FAULT")
    if not fault:
        return "inductor"
    from torchsleuth.backends.faulty import faulty

    return faulty(**json.loads(fault))


def main() -> None:
    model, inputs = ZOO[sys.argv[1]].build()
    model.train()
    compiled = torch.compile(model, backend=backend())
    _, first = step(model, compiled, inputs)
    times = []
    for _ in range(STEPS):
        values, seconds = step(model, compiled, inputs)
        times.append(seconds)
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        digest.update(value.detach().contiguous().numpy().tobytes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"hash": digest.hexdigest(), "first": first, "step": statistics.median(times), "peak": peak}))


if __name__ == "__main__":
    main()
