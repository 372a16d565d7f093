"""Which nodes of a graph an operator's name means.

A name without a dot is compared with the operator's bare name: its last part, without overload and leading
underscores.  So "relu" means `torch.relu`, `F.relu`, `Tensor.relu` and `aten.relu.default`, and "softmax" also
`aten._softmax.default`, but "relu" means neither `relu_` nor `relu6`.  A name with a dot is compared with the full
name, with or without its overload: "aten.relu.default", "aten.relu", "torch.nn.functional.relu", "operator.add",
"Tensor.relu", "mylib.foo" or "mylib::foo".  Both may be patterns of `fnmatch`: "relu*", "aten.*_backward.*".

Where a graph has no such name, other names of torch's for it do: "torch.relu" then means what "relu" means.  Where it
has none of these either, because the operator was decomposed before (linear, conv2d, layer_norm), the last of the nodes
that it was decomposed into stands for it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase

import torch

DISPATCHED = ("aten", "prims")  # whose names end in an overload
NAMESPACES_OF_TORCH = (*DISPATCHED, "torch", "Tensor", "F", "operator")


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
    # The script of a repro carries this function, so it cannot import `operators`; a test compares the two.
    return str(getattr(node.target, "__name__", node.target)).split(".")[0].lstrip("_")


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
    nodes = list(calls(gm))
    places = {op: places_of(nodes, op) for op in ops}
    start = 0
    if needs_all:
        for op in ops[:-1]:  # each after the one before it
            found = next((i for i in places[op] if i >= start), None)
            if found is None:
                return None
            start = found + 1
    last = ops[-1:] if needs_all else ops
    hits = sorted({i for op in last for i in places[op] if i >= start})
    return nodes[hits[nth]] if nth < len(hits) else None


def places_of(nodes: Sequence[torch.fx.Node], op: str) -> list[int]:
    """Where `op` is called: as the name is written; else under another name of it; else where it was decomposed."""
    exact = [i for i, node in enumerate(nodes) if matches(node, op)]
    if exact:
        return exact
    short = without_namespace(op)
    renamed = [i for i, node in enumerate(nodes) if short and fnmatchcase(bare_name(node), short)]
    return renamed or (decomposed(nodes, short) if short else [])


def needs_other_names(gm: torch.fx.GraphModule, ops: Sequence[str]) -> bool:
    """Whether some of `ops` does not stand in the graph as it is written."""
    nodes = list(calls(gm))
    return not all(any(matches(node, op) for node in nodes) for op in ops)


def without_namespace(op: str) -> str:
    """gelu for torch.nn.functional.gelu, Tensor.gelu and aten.gelu.default; empty for an operator of the user's own."""
    parts = op.replace("::", ".").removeprefix("torch.ops.").split(".")
    if len(parts) == 1:
        return op
    if parts[0] not in NAMESPACES_OF_TORCH:
        return ""
    is_overload = parts[0] in DISPATCHED and len(parts) > 2
    return (parts[1] if is_overload else parts[-1]).lstrip("_")


def decomposed(nodes: Sequence[torch.fx.Node], short: str) -> list[int]:
    """The last node that computes of each call of `short` in the user's code, by what tracing notes of a node's origin.

    Its result is the call's.  Views are passed over where the call has another node: a transposed weight that is only
    kept for the backward stands after the product.
    """
    looks = "t permute transpose view reshape unsafe_view expand unsqueeze squeeze detach alias".split()
    last: dict[str, int] = {}
    views: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if node.target is not operator.getitem:
            made = views if bare_name(node) in looks else last
            made.update({call: i for call, name in sources(node) if fnmatchcase(name, short)})
    return sorted(set({**views, **last}.values()))


def sources(node: torch.fx.Node) -> Iterator[tuple[str, str]]:
    """Calls that the node was made for: what tells one from another, and bare names of what was called."""
    for key in ("source_fn_stack", "fwd_source_fn_stack"):
        for call, function in node.meta.get(key) or ():
            name = str(getattr(function, "__name__", function)).rpartition(".")[2].lstrip("_")
            if isinstance(function, type):  # a module: layer_norm for LayerNorm, batch_norm for BatchNorm1d
                name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
                yield call, re.sub(r"[123]d$", "", name)
            yield call, name
    if (original := node.meta.get("original_aten")) is not None and node.meta.get("seq_nr") is not None:
        yield f"{original} {node.meta['seq_nr']}", str(original).split(".")[1].lstrip("_")


def nearest_names(gm: torch.fx.GraphModule, op: str) -> list[str]:
    """Names that the graph has, those most like `op` first."""
    nodes = list(calls(gm))
    names = dict.fromkeys(name for node in nodes for name in (bare_name(node), *(n for _, n in sources(node))))
    wanted = without_namespace(op) or op
    return sorted(names, key=lambda name: -SequenceMatcher(None, name, wanted).ratio())


def calls(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Operator calls in order, those inside the bodies of higher-order operators after the graph's own."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op in ("call_function", "call_method"))
