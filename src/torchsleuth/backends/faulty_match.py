"""Which nodes of a graph an operator's name means.

A name without a dot is compared with the operator's bare name: its last part, without overload and leading
underscores.  So "relu" means `torch.relu`, `F.relu`, `Tensor.relu` and `aten.relu.default`, and "softmax" also
`aten._softmax.default`, but "relu" means neither `relu_` nor `relu6`.  A name with a dot is compared with the full
name, with or without its overload: "aten.relu.default", "aten.relu", "torch.nn.functional.relu", "operator.add",
"Tensor.relu", "mylib.foo" or "mylib::foo".  Both may be patterns of `fnmatch`: "relu*", "aten.*_backward.*".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import torch

from torchsleuth.operators.names import name_of


def matches(node: torch.fx.Node, op: str) -> bool:
    if not is_dotted(op):
        return fnmatchcase(bare_name(node), op)
    full = full_name(node)
    wanted = op.replace("::", ".")
    return fnmatchcase(full, wanted) or (full.count(".") == 2 and fnmatchcase(full.rpartition(".")[0], wanted))


def is_dotted(op: str) -> bool:
    return "." in op or "::" in op


def is_pattern(op: str) -> bool:
    return any(mark in op for mark in "*?[")


def bare_name(node: torch.fx.Node) -> str:
    return name_of(node.target).name.lstrip("_")


def full_name(node: torch.fx.Node) -> str:
    target = node.target
    if isinstance(target, str):
        return f"Tensor.{target}"
    # An overload lives in "torch._ops.aten", an operator such as + in "_operator".
    return re.sub(r"^(torch\._ops\.|_)", "", f"{target.__module__}.{target.__name__}")


def find(gm: torch.fx.GraphModule, ops: Sequence[str], nth: int, needs_all: bool) -> torch.fx.Node | None:
    """The node where the fault goes, or None where the graph has no such node.

    With `needs_all`, the `nth` node that matches the last of `ops` after all others were met in their order; without,
    the `nth` node that matches any of them.
    """
    before, last = (ops[:-1], ops[-1:]) if needs_all else ((), ops)
    nodes = _calls(gm)
    if not all(any(matches(node, op) for node in nodes) for op in before):
        return None
    hits = [node for node in nodes if any(matches(node, op) for op in last)]
    return hits[nth] if nth < len(hits) else None


def _calls(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Operator calls in order, those inside the bodies of higher-order operators after the graph's own."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op in ("call_function", "call_method"))
