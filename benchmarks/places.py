"""A fault at one operator of one module of real models: is it that module, and that line, that is named?

    python benchmarks/places.py [MODEL...] [--kind compile-error|runtime-error|accuracy]... [--side forward|backward]

A module of the model, chosen by chance among those that its forward calls, is wrapped so that it ends with an operator
that the model has nowhere else; `torchsleuth.backends.faulty` fails at it, or at its backward.  A row is right when
result.json names the wrapped module's path, and the line of the wrapper.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from models import chosen

HERE = Path(__file__).resolve().parent
DEFAULT = "bert deberta gpt2 llama t5 bart vit convnext clip wav2vec2 mamba mixtral".split()
OPERATORS = {"forward": "hardswish", "backward": "hardswish_backward"}

PROGRAM = """
import random
import sys

import torch
from models import ZOO, loss
from torchsleuth.backends import faulty

name, kind, side, operator, seed = sys.argv[1:]


class Wrapped(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        x = self.inner(x)
        return torch.nn.functional.hardswish(x)

    @property
    def weight(self):
        return self.inner.weight

    @property
    def bias(self):
        return self.inner.bias


model, inputs = ZOO[name].build()
model.train()
called = set()
for path, module in model.named_modules():
    if isinstance(module, (torch.nn.Linear, torch.nn.LayerNorm)):
        module.register_forward_hook(lambda *_, path=path: called.add(path))
loss(model(**inputs))
for module in model.modules():
    module._forward_hooks.clear()

path = random.Random(seed).choice(sorted(called))
parent = model.get_submodule(path.rpartition(".")[0])
setattr(parent, path.rpartition(".")[2], Wrapped(model.get_submodule(path)))
open("expected", "w").write(path)


def run(model):
    for parameter in model.parameters():
        parameter.grad = None
    torch.manual_seed(0)
    value = loss(model(**inputs))
    value.backward()
    return value.detach(), [p.grad for p in model.parameters() if p.grad is not None]


compiled = run(torch.compile(model, backend=faulty(operator, kind, where=side)))
torch.testing.assert_close(compiled, run(model), rtol=1e-3, atol=1e-3)
"""
LINE = 1 + PROGRAM.lstrip("\n").splitlines().index("        return torch.nn.functional.hardswish(x)")


@dataclass(frozen=True)
class Row:
    cells: tuple[str, ...]
    right: bool


def try_one(model: str, kind: str, side: str, seed: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="places-") as folder:
        here = Path(folder)
        (here / "program.py").write_text(PROGRAM.lstrip("\n"))
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "torchsleuth", "run", "--out", "out", sys.executable, "program.py", model, kind,
             side, OPERATORS[side], str(seed)],
            cwd=here, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        seconds = time.perf_counter() - began
        expected = (here / "expected").read_text()
        failures = json.loads((here / "out" / "result.json").read_text())["failures"]
    found = failures[0] if failures else {"culprit": {}, "repro": None}
    module, source = found["culprit"].get("module") or "", found["culprit"].get("source") or ""
    # ModuleList elements are written as Python does: layer[0] for layer.0
    plain = module.replace("[", ".").replace("]", "")
    right_module = plain == expected or plain.endswith(f".{expected}")
    right_line = source.endswith(f"program.py:{LINE}")
    operators = (found["repro"] or {}).get("ops")
    cells = (model, kind, side, expected, module or "none", source.rpartition("/")[2] or "none", str(operators))
    return Row((*cells, f"{seconds:.0f}"), right_module and right_line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--kind", action="append", choices=("compile-error", "runtime-error", "accuracy"))
    parser.add_argument("--side", choices=tuple(OPERATORS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("| model | fault | side | module | named | line named (program.py:" + f"{LINE}) | operators left | s | |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for tiny in chosen(asked.models):
        for kind in asked.kind or ("compile-error",):
            for side in (s for s in OPERATORS if asked.side in (None, s)):
                row = try_one(tiny.name, kind, side, asked.seed)
                rows.append(row)
                print("| " + " | ".join(row.cells) + f" | {'right' if row.right else 'NO'} |", flush=True)
    print(f"\n{sum(r.right for r in rows)} of {len(rows)} right")
    return 0 if all(r.right for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
