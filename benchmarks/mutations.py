"""How small a fault does the referee find?  `python benchmarks/mutations.py [--models bert llama]`.

Faults of decreasing size are planted into graphs that AOTAutograd made of tiny models (`backend="aot_eager"`, so that
nothing else differs from eager), at operators spread over the graph, forward and backward; the referee compares with
the model in eager.  A row says how many of the faults of a kind and size were found, of those that show at all: what
only a masked part reads changes no bit of any result.  A second table has faults in single functions that a compiler is
likely to make: a dropped epsilon, a tail without its mask, a stale buffer.
Found is not the same as findable: a fault of one rounding is none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from functorch.compile import make_boxed_func
from models import chosen
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule, Node

import torchsleuth
from torchsleuth.referee.graph import check_graph

SIZES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
PLACES = 6  # operators of each graph

Change = Callable[[torch.Tensor, float], torch.Tensor]


def scaled(x: torch.Tensor, size: float) -> torch.Tensor:
    return x * (1 + size)


def one_element(x: torch.Tensor, size: float) -> torch.Tensor:
    y = x.clone().reshape(-1)
    y[-1] += size * (1 + y[-1].abs())
    return y.reshape(x.shape)


def shifted(x: torch.Tensor, size: float) -> torch.Tensor:
    return x + size * x.abs().mean()


CHANGES: dict[str, Change] = {"scaled": scaled, "one element": one_element, "shifted": shifted}


def planted(change: Change, size: float, place: float, backward: bool) -> Callable[..., Any]:
    def compiler(active: bool) -> Callable[..., Any]:
        def compile(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            floats = [n for n in gm.graph.nodes if n.op == "call_function" and _is_float(n)]
            if active and floats:
                _plant(gm, floats[int(place * (len(floats) - 1))], change, size)
            boxed: Callable[..., Any] = make_boxed_func(gm.forward)
            return boxed

        return compile

    return aot_autograd(fw_compiler=compiler(not backward), bw_compiler=compiler(backward))


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _plant(gm: GraphModule, node: Node, change: Change, size: float) -> None:
    with gm.graph.inserting_after(node):
        new = gm.graph.call_function(change, (node, size))
    node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
    gm.recompile()


def in_models(names: Sequence[str]) -> None:
    print("| model | fault | where | " + " | ".join(f"{s:g}" for s in SIZES) + " |\n|" + "---|" * (3 + len(SIZES)))
    for tiny in chosen(names):
        for fault, change in CHANGES.items():
            for backward in (False, True):
                cells = []
                for size in SIZES:
                    found = shown = 0
                    for i in range(PLACES):
                        model, inputs = tiny.build()
                        torch.compiler.reset()
                        backend = planted(change, size, i / (PLACES - 1), backward)
                        report = torchsleuth.check(model, **inputs, compile={"backend": backend}).report
                        found += bool(report.wrong)
                        shown += bool(report.wrong or report.excused)
                    cells.append(f"{found}/{shown}")
                where = "backward" if backward else "forward"
                print(f"| {tiny.name} | {fault} | {where} | " + " | ".join(cells) + " |", flush=True)


def functions() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]]:
    x = torch.randn(64, 257)
    tiny = torch.randn(64, 257) * 1e-3
    norm = torch.nn.functional.layer_norm
    stale = torch.zeros(257)
    return {
        "wrong constant": (lambda x: x * 0.7071067, lambda x: x * 0.7071, (x,)),
        "dropped epsilon": (lambda x: norm(x, (257,)), lambda x: norm(x, (257,), eps=0.0), (tiny,)),
        "off-by-one index": (lambda x: x[:, 1:].sum(-1), lambda x: x[:, :-1].sum(-1), (x,)),
        "wrong rounding": (lambda x: x.round(), lambda x: (x + 0.5).floor(), (torch.arange(-9.5, 9.5),)),
        "swapped min and max": (lambda x: x.clamp(-1, 1), lambda x: x.clamp(-1, 1.001), (x,)),
        "tail without a mask": (lambda x: x.sum(-1), lambda x: x[:, :256].sum(-1), (x,)),
        "stale buffer": (lambda x: x + x[0], lambda x: x + stale, (x,)),
        "scale applied twice": (lambda x: (x / 16).softmax(-1), lambda x: (x / 256).softmax(-1), (x,)),
        "wrong accumulate dtype": (lambda x: x.sum(-1), lambda x: x.bfloat16().sum(-1).float(), (x,)),
        "float16 inside": (lambda x: (x * x).mean(-1), lambda x: (x.half() * x.half()).float().mean(-1), (x,)),
        "gelu for its tanh form": (
            lambda x: torch.nn.functional.gelu(x),
            lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
            (x,),
        ),
        "biased variance": (lambda x: x.var(-1), lambda x: x.var(-1, correction=0), (x,)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=["bert", "llama"])
    options = parser.parse_args()
    torch.manual_seed(0)
    missed = 0
    print("| fault | |\n|---|---|")
    for name, (right, broken, inputs) in functions().items():
        wrong = check_graph(right, broken, inputs, backward=False).wrong
        missed += not wrong
        print(f"| {name} | {'found: ' + wrong[0].text if wrong else 'MISSED'} |", flush=True)
    print()
    if options.models:
        in_models(options.models)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
