"""The backends that torchsleuth brings, in one table: what each runs, and what is ruled out where it passes.

It knows and costs nothing, so that `torchsleuth backends` need not wait for torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    runs: str
    rules_out: str  # where the failure does not show with this backend, or the check passes


TABLE = (
    Row(
        "sleuth_eager",
        "Dynamo's graph, operator by operator in eager",
        "Dynamo: if it passes, capture, guards and graph breaks are right for these inputs",
    ),
    Row(
        "sleuth_eager_marked",
        "the same; what an operator raises comes as GraphRaised, with its name and your line",
        "with the mark: Dynamo and your Python around the graph; without: the operators of the graph",
    ),
    Row(
        "sleuth_schema",
        "the same; each operator is held to its schema (WrongSchema)",
        "an operator that writes to or shares memory unsaid; in the forward only: for both, add sleuth_aot",
    ),
    Row(
        "sleuth_function_modes",
        'the same under torch-function modes: options={"modes": [...]}, else one that passes calls on',
        "these modes: if it fails here and not in sleuth_eager, one of them is at fault",
    ),
    Row(
        "sleuth_pre_dispatch",
        "Dynamo's graph traced into ATen operators, with autograd and autocast in it; NotTraceable for torch.func",
        "Dynamo, and the tracing into ATen operators",
    ),
    Row(
        "sleuth_torchscript",
        "Dynamo's graph by TorchScript; NotScriptable where it cannot",
        "Dynamo: the graph also means the same to another interpreter",
    ),
    Row(
        "sleuth_aot",
        "AOTAutograd's forward and backward in eager, default partitioner",
        "Dynamo, functionalization and the traced backward",
    ),
    Row(
        "sleuth_aot_min_cut",
        "the same with the min-cut partitioner, which recomputes",
        "also the partitioner that Inductor uses",
    ),
    Row(
        "sleuth_aot_decomp",
        'the same with Inductor\'s decompositions: options={"decompositions": "core" or a table}',
        "also these decompositions",
    ),
    Row(
        "sleuth_aot_dispatch_modes",
        'AOTAutograd\'s graphs under dispatch modes: options={"modes": [...]}, else one that passes on',
        "these modes: if it fails here and not in sleuth_aot, one of them is at fault",
    ),
    Row(
        "sleuth_fake",
        "AOTAutograd's graphs; each operator's fake kernel is compared with it (WrongFakeKernel)",
        "a fake kernel with a wrong shape, dtype, stride or device, forward and backward",
    ),
    Row(
        "sleuth_nudged",
        "AOTAutograd's graphs in eager, each rounded result moved by a few units in the last place",
        "rounding: if your program fails with it and not with sleuth_aot, it is sensitive to rounding",
    ),
    Row(
        "sleuth_aot_torchscript",
        "AOTAutograd's graphs by TorchScript; NotScriptable where it cannot",
        "as sleuth_aot: the graphs also mean the same to another interpreter",
    ),
    Row(
        "sleuth_invoke_subgraph",
        "AOTAutograd's graphs, each as the body of invoke_subgraph",
        "as sleuth_aot, and that operator around them",
    ),
    Row(
        "torchsleuth",
        "Inductor, each graph compared with eager at its first calls (WrongNumbers)",
        "wrong numbers, as far as rounding does not explain them",
    ),
    Row(
        "sleuth_faulty",
        'a fault of your choice at an operator of your choice: options={"op": ..., "kind": ...}',
        "nothing: it is there to practise on, and to test tools with",
    ),
)
