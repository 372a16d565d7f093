"""Does the referee call right models wrong?  `python benchmarks/false_alarms.py [--models bert] [--dtypes float32]`.

Each tiny model is compiled by Inductor and compared with eager by `torchsleuth.check`: in eval and train mode (dropout
on), forward and backward, in float32, bfloat16 and float16 where the CPU has the operators; then single operators with
legitimately large rounding.  One row each; status 1 where anything was called wrong.  What is found may of course be a
real bug of torch: the row says which value, and `torchsleuth run` on a script of it tells the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from models import chosen, tensors

import torchsleuth

DTYPES = ("float32", "bfloat16", "float16")


def operators() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    hilbert = 1 / (torch.arange(8.0)[:, None] + torch.arange(8.0) + 1)
    return {
        "long sum": (lambda x: x.sum(), (torch.randn(1_000_000),)),
        "sum with cancellation": (lambda x: x.sum(-1), (torch.linspace(-1, 1, 100_000).repeat(4, 1),)),
        "softmax of large logits": (lambda x: x.softmax(-1), (1000 * torch.randn(64, 512),)),
        "log_softmax, float16": (lambda x: x.log_softmax(-1), (20 * torch.randn(64, 512).half(),)),
        "layer norm of nearly equal": (
            lambda x: torch.nn.functional.layer_norm(x, (256,)),
            (1000 + 1e-3 * torch.randn(32, 256),),
        ),
        "variance with a large mean": (lambda x: x.var(-1), (1e4 + torch.randn(32, 1000),)),
        "matmul with cancellation": (lambda a, b: a @ b, (1e3 * torch.randn(64, 512), 1e3 * torch.randn(512, 64))),
        "inverse, ill-conditioned": (torch.inverse, (hilbert,)),
        "sort with ties": (lambda x: torch.sort(x), (torch.randint(0, 5, (64, 100)).float(),)),
        "topk with ties": (lambda x: x.topk(5), (torch.zeros(32, 100),)),
        "argmax with ties": (lambda x: x.argmax(-1), (torch.ones(32, 100),)),
        "comparison at the edge": (lambda x: (x / 3 * 3 > x).float(), (torch.rand(10_000),)),
        "bfloat16 accumulate": (lambda x: x.sum(-1) / x.shape[-1], (torch.rand(64, 5000).bfloat16(),)),
        "exp near overflow": (lambda x: x.exp(), (torch.linspace(80, 90, 1000),)),
        "float16 near overflow": (lambda x: (x * x).sqrt(), (torch.linspace(200, 300, 1000).half(),)),
        "cumsum": (lambda x: x.cumsum(-1), (torch.randn(8, 20_000),)),
        "cumprod": (lambda x: x.cumprod(-1), (1 + 0.1 * torch.randn(8, 500),)),
        "tan near a pole": (lambda x: x.tan(), (torch.linspace(1.5, 1.6, 1000),)),
        "erfinv": (lambda x: torch.erfinv(x), (torch.linspace(-0.99999, 0.99999, 1000),)),
        "rand and dropout": (lambda x: torch.nn.functional.dropout(x * torch.rand_like(x), 0.3), (torch.randn(4096),)),
        "round": (lambda x: (x * 10).round() / 10, (torch.randn(10_000),)),
        "floor division": (lambda x: x // 0.1, (torch.linspace(0, 10, 1001),)),
        "remainder": (lambda x: torch.remainder(x, 0.3), (torch.linspace(-10, 10, 1001),)),
        "norm of tiny": (lambda x: x / x.norm(dim=-1, keepdim=True), (1e-20 * torch.randn(32, 64),)),
        "bucketize": (lambda x: torch.bucketize(x, torch.linspace(0, 1, 11)), (torch.linspace(0, 1, 101),)),
    }


def model_row(tiny: Any, dtype: str, train: bool) -> tuple[str, str]:
    model, inputs = tiny.build()
    kind = getattr(torch, dtype)
    model = model.to(kind).train(train)
    inputs = {k: v.to(kind) if torch.is_tensor(v) and v.is_floating_point() else v for k, v in inputs.items()}
    try:
        with torch.no_grad():
            tensors(model(**inputs))
    except Exception as error:  # no such operator in this precision on the CPU, or not with these modules
        return "skipped", f"eager: {type(error).__name__}"
    return verdict_of(model, **inputs)


def verdict_of(model: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, str]:
    torch.compiler.reset()
    try:
        verdict = torchsleuth.check(model, *args, **kwargs)
    except Exception as error:
        return "skipped", f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
    if verdict:
        return "right", f"{verdict.report.compared} values, {len(verdict.report.excused)} differ by rounding"
    first = verdict.wrong[0]
    return "WRONG", f"{len(verdict.wrong)} of {verdict.report.compared}: {first.path}: {first.how}: {first.text}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="which of the zoo (default: all; none: only operators)")
    parser.add_argument("--dtypes", nargs="*", choices=DTYPES, default=DTYPES)
    parser.add_argument("--modes", nargs="*", choices=("eval", "train"), default=("eval", "train"))
    parser.add_argument("--operators", action=argparse.BooleanOptionalAction, default=True, help="single ones, too")
    options = parser.parse_args()
    print("| what | dtype | mode | verdict | | s |\n|---|---|---|---|---|---|", flush=True)
    wrong = total = 0

    def row(what: str, dtype: str, mode: str, found: tuple[str, str], began: float) -> None:
        nonlocal wrong, total
        total += found[0] != "skipped"
        wrong += found[0] == "WRONG"
        cells = [what, dtype, mode, *found, f"{time.perf_counter() - began:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)

    for name, (function, inputs) in operators().items() if options.operators else ():
        began = time.perf_counter()
        row(name, str(inputs[0].dtype).removeprefix("torch."), "", verdict_of(function, *inputs), began)
    if options.models == []:
        print(f"\n{wrong} of {total} called wrong")
        return 1 if wrong else 0
    for tiny in chosen(options.models or ()):
        for dtype in options.dtypes:
            for mode in options.modes:
                began = time.perf_counter()
                row(tiny.name, dtype, mode, model_row(tiny, dtype, mode == "train"), began)
    print(f"\n{wrong} of {total} called wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
