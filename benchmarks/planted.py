"""A fault planted in each place inside the compiler, and what `torchsleuth locate` says of it.

    python benchmarks/planted.py [PLACE...] [--kind error|numbers] [--side forward|backward]

Each fault stands in a module of its own that the program imports, so that the Case must carry it along.  A row is right
when the place that is named is the place where the fault is.
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

PROGRAM = """
import plant
import torch

def f(x, w):
    h = torch.asinh(x @ w)
    s = torch.nn.functional.silu(h)
    return (s * h.sum(-1, keepdim=True)).cos() + x.amax(0)

def run(g):
    torch.manual_seed(0)
    x, w = torch.randn(8, 8, requires_grad={grad}), torch.randn(8, 8)
    y = g(x, w)
    if {grad}:
        y.sum().backward()
    return y.detach(), x.grad, x.detach()

torch.testing.assert_close(run(torch.compile(f)), run(f))
"""

# In each, OP is the operator at which the fault is: one of the forward, or one that only the backward has.
LOWERING = """
import torch
from torch._inductor import lowering

table, old = lowering.lowerings, lowering.lowerings[torch.ops.aten.OP.default]

def wrong(x):
    if ERROR:
        raise ValueError("planted")
    return table[torch.ops.aten.add.Tensor](old(x), 1)

lowering.lowerings[torch.ops.aten.OP.default] = wrong
"""

DECOMPOSITION = """
import torch
from torch._inductor import decomposition

old = decomposition.decompositions[torch.ops.aten.OP.default]

def wrong(*args):
    if ERROR:
        raise ValueError("planted")
    return old(*args) + 1

decomposition.decompositions[torch.ops.aten.OP.default] = wrong
"""

PASS = """
import torch
from torch._inductor.fx_passes import WHERE

old = WHERE.NAME

def wrong(given):
    found = old(given)
    graph = getattr(given, "graph", given)
    nodes = graph.find_nodes(op="call_function", target=torch.ops.aten.OP.default)
    if nodes and ERROR:
        raise ValueError("planted")
    for node in nodes:
        node.target = torch.ops.aten.cos.default
    return found

WHERE.NAME = wrong
"""

CUSTOM_PASS = """
import torch
import torch._inductor.config

def planted_pass(graph):
    nodes = graph.find_nodes(op="call_function", target=torch.ops.aten.OP.default)
    if nodes and ERROR:
        raise ValueError("planted")
    for node in nodes:
        node.target = torch.ops.aten.cos.default

torch._inductor.config.NAME = planted_pass
"""

PARTITIONER = """
import torch
from torch._functorch import partitioners

def wrong(*args, **kwargs):
    raise ValueError("planted")

partitioners.solve_min_cut = wrong
"""

FUSION = """
import torch
from torch._inductor.codegen import cpp

old = cpp.CppScheduling.fuse
old_code, old_vector = cpp.CppOverrides.__dict__["OP"], cpp.CppVecOverrides.__dict__.get("OP")
fused = []

def fuse(self, node1, node2):
    names = {str(o.target) for n in (*node1.get_nodes(), *node2.get_nodes()) for o in n.node.get_origins()}
    if any("OP" in name for name in names):
        if ERROR:
            raise ValueError("planted")
        fused.append(True)
    return old(self, node1, node2)

def twice(old):
    return staticmethod(lambda x: f"({old.__func__(x)})" + (" + " + str(x) if fused else ""))

cpp.CppScheduling.fuse = fuse
cpp.CppOverrides.OP = twice(old_code)
if old_vector is not None:
    cpp.CppVecOverrides.OP = twice(old_vector)
"""

VECTOR = """
import torch
from torch._inductor.codegen import cpp

old = cpp.CppVecOverrides.__dict__["OP"]

def wrong(x):
    if ERROR:
        raise ValueError("planted")
    return f"({old.__func__(x)} + {x})"

cpp.CppVecOverrides.OP = staticmethod(wrong)
"""

# Buffers of matrix products are taken again once they are free; `kept` lives all the while.
PRODUCTS = PROGRAM.replace(
    """    h = torch.asinh(x @ w)
    s = torch.nn.functional.silu(h)
    return (s * h.sum(-1, keepdim=True)).cos() + x.amax(0)
""",
    """    kept = x @ w
    h = x
    for _ in range(4):
        h = h @ w
    return kept + h
""",
)

REUSE = """
import torch
from torch._inductor.codegen import wrapper

old = wrapper.AllocateLine.plan

class Spoiling(wrapper.ReuseLine):
    def codegen(self, code):
        super().codegen(code)
        own = self.reused_as.get_name()
        code.writeline(
            f"[v.add_(1) for k, v in list(locals().items()) if k.startswith('buf') and k != {own!r}]"
        )

def wrong(self, state):
    found = old(self, state)
    if not isinstance(found, wrapper.ReuseLine):
        return found
    if ERROR:
        raise ValueError("planted")
    return Spoiling(found.wrapper, found.node, found.reused_as)

wrapper.AllocateLine.plan = wrong
"""

IN_PLACE = """
import torch
from torch._inductor.codegen import wrapper

old = wrapper.PythonWrapperCodegen.codegen_inplace_reuse

def wrong(self, given, taken):
    if ERROR:
        raise ValueError("planted")
    old(self, given, taken)
    self.writeline(f"{taken.get_name()}.add_(1)")

wrapper.PythonWrapperCodegen.codegen_inplace_reuse = wrong
"""

# What Dynamo makes of Tensor.dim(), which the program asks for.
DIMS = PROGRAM.replace("+ x.amax(0)", "* x.dim()")

DYNAMO = """
import torch
from torch._dynamo.variables import tensor

old = tensor.TensorVariable.method_dim

def wrong(self, *args, **kwargs):
    if ERROR:
        raise ValueError("planted")
    found = old(self, *args, **kwargs)
    return type(found)(found.value + 1)

tensor.TensorVariable.method_dim = wrong
"""


@dataclass(frozen=True)
class Place:
    source: str
    component: str
    says: str  # what the place must be called
    forward: str | None = "asinh"  # the operator; None: there is no such fault
    backward: str | None = "rsqrt"
    kinds: tuple[str, ...] = ("error", "numbers")
    program: str = PROGRAM


def _pass(where: str, name: str, says: str) -> Place:
    return Place(PASS.replace("WHERE", where).replace("NAME", name), "inductor", says)


PLACES = {
    "decomposition": Place(DECOMPOSITION, "decomposition", "decomposition of aten.OP.default", "silu", "silu_backward"),
    "partitioner": Place(PARTITIONER, "partitioner", "", None, "rsqrt", kinds=("error",)),
    "joint pass": _pass("joint_graph", "constant_fold_uniform_value", "joint-graph pass constant_fold_uniform_value"),
    "post-grad pass": _pass("post_grad", "remove_assert_ops", "post-grad pass remove_assert_ops"),
    "custom pass": Place(
        CUSTOM_PASS.replace("NAME", "post_grad_custom_post_pass"),
        "inductor",
        "post-grad pass post_grad_custom_post_pass",
    ),
    "lowering": Place(LOWERING, "inductor", "lowering of aten.OP.default"),
    "fusion": Place(FUSION, "inductor", "fusion of", "cos", "sin"),
    "C++ override": Place(
        VECTOR, "inductor", "lowering of aten.OP.default, with vectorised C++", "cos", "sin", kinds=("numbers",)
    ),
    "buffer reuse": Place(REUSE, "inductor", "buffer reuse", program=PRODUCTS),
    "in-place buffers": Place(IN_PLACE, "inductor", "in-place buffers"),
    "Dynamo handler": Place(DYNAMO, "dynamo", "", backward=None, program=DIMS),
}


@dataclass(frozen=True)
class Row:
    place: str
    kind: str
    side: str
    right: bool
    component: str
    said: str
    judged: int
    seconds: float


def try_one(name: str, kind: str, side: str, jobs: int) -> Row | None:
    """None where the fault that is planted changes nothing that the program looks at."""
    place = PLACES[name]
    operator = place.forward if side == "forward" else place.backward
    assert operator is not None
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        here = Path(folder)
        (here / "plant.py").write_text(place.source.replace("OP", operator).replace("ERROR", str(kind == "error")))
        (here / "program.py").write_text(place.program.replace("{grad}", str(side == "backward")))
        # torch's cache does not know what was planted: a program would be given another's kernels.
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(here / "cache")}
        program = [sys.executable, "program.py"]
        if subprocess.run(program, cwd=here, capture_output=True, check=False, env=environment).returncode == 0:
            return None
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "torchsleuth", "run", "--out", "out", "--jobs", str(jobs), *program],
            cwd=here, capture_output=True, check=False, env=environment,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        failures = json.loads((here / "out" / "result.json").read_text())["failures"]
    if not failures:
        return Row(name, kind, side, False, "", "no failure was found", 0, seconds)
    found = failures[0]
    said = found["culprit"]["pass"] or ""
    wanted = place.says.replace("OP", operator)
    right = found["component"] == place.component and (said.startswith(wanted) if wanted else True)
    inside = found["inside"] or {}
    return Row(name, kind, side, right, found["component"], said, int(inside.get("judged") or 0), seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", default=[], help=f"of {', '.join(PLACES)}; all of them unless named")
    parser.add_argument("--kind", choices=("error", "numbers"))
    parser.add_argument("--side", choices=("forward", "backward"))
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    if unknown := sorted(set(asked.places) - set(PLACES)):
        parser.error(f"no such place: {', '.join(unknown)}")
    print("| place | fault | side | named | component | inside the compiler | judged inside | s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    rows: list[Row] = []
    for name in asked.places or PLACES:
        place = PLACES[name]
        for kind in (k for k in place.kinds if asked.kind in (None, k)):
            for side in ("forward", "backward"):
                if asked.side not in (None, side) or getattr(place, side) is None:
                    continue
                row = try_one(name, kind, side, asked.jobs)
                if row is None:
                    print(f"| {name} | {kind} | {side} | - | | the program passes with it | | |", flush=True)
                    continue
                rows.append(row)
                print(
                    f"| {name} | {kind} | {side} | {'yes' if row.right else 'NO'} | {row.component} | {row.said} "
                    f"| {row.judged} | {row.seconds:.0f} |",
                    flush=True,
                )
    print(f"\n{sum(r.right for r in rows)} of {len(rows)} named exactly")
    return 0 if all(r.right for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
