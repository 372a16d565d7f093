"""Calls of the user's own Triton kernels, in a Case: by a label, with the arguments that torch keeps beside the graph.

    torch.ops.higher_order.triton_kernel_wrapper_mutation(
        kernel="add:0", constants={"n": 5, "BLOCK": 16}, choices=[], sizes={"x": 5, "out": 5}, grid=[(1, 1, 1)],
        kwargs={"x": x, "out": out})

`sizes` are the elements of the tensors that it was launched with.  The label names an entry of `Surroundings.code`,
which holds the kernel's source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torchsleuth.case.ir import Arg, Graph, Node, Ref
from torchsleuth.case.model import Code

MUTATION = "torch.ops.higher_order.triton_kernel_wrapper_mutation"
_WHAT = "triton kernel "


def label(name: str, number: int) -> str:
    return f"{name}:{number}"


def number_of(node: Node) -> int | None:
    """The number in torch's table, in the process that the Case was taken in; None where it calls no kernel."""
    given = node.kwargs.get("kernel") if ".triton_kernel_wrapper_" in node.target else None
    found = re.fullmatch(r"\w+:(\d+)", given) if isinstance(given, str) else None
    return int(found[1]) if found else None


def problems(node: Node) -> Iterator[str]:
    """What a damaged or forged text may have made of a call: what stands in it becomes part of a script."""
    if ".triton_kernel_wrapper_" not in node.target or "kernel" not in node.kwargs:
        return
    if number_of(node) is None:
        yield "the kernel has no label"
    for name in ("kwargs", "constants", "sizes"):
        value = node.kwargs.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(k, str) and k.isidentifier() for k in value):
            yield f"{name} holds no arguments by name"
    for name in ("grid", "choices"):
        parts = node.kwargs.get(name, [])
        kind = tuple if name == "grid" else dict
        if not isinstance(parts, list) or not all(isinstance(part, (kind, list)) for part in parts):
            yield f"{name} is no list of what it should hold"


def calls_one(graph: Graph) -> bool:
    return any(number_of(n) is not None for one in graph.all_graphs() for n in one.nodes)


def too_small(node: Node, elements: Mapping[str, int | None]) -> Iterator[str]:
    """Tensors with fewer elements than the kernel was launched with: it would write beyond them."""
    if number_of(node) is None:
        return
    given: Any = node.kwargs.get("kwargs", {})
    sizes: Any = node.kwargs.get("sizes", {})
    for name, value in given.items():
        now = elements.get(value.name) if isinstance(value, Ref) else None
        if now is not None and now < sizes.get(name, 0):
            yield name


def what(given: str) -> str:
    """How the source of a kernel is called among what a Case carries."""
    return _WHAT + given


def expressions(code: Iterable[Code]) -> dict[str, str]:
    """By label, what each kernel is called in the source that is carried."""
    return {c.what.removeprefix(_WHAT): c.name for c in code if c.what.startswith(_WHAT)}


def call_text(node: Node, kernel: str, show: Callable[[Any], str]) -> str:
    """`kernel[grid](x=x, out=out, BLOCK=16)`."""
    given: Any = node.kwargs.get("kwargs", {})
    constants: Any = node.kwargs.get("constants", {})
    arguments = [f"{k}={show(v)}" for k, v in [*given.items(), *constants.items()]]
    return f"{kernel}[{_grid(node.kwargs, show)}]({', '.join(arguments)})"


def _grid(kwargs: Mapping[str, Arg], show: Callable[[Any], str]) -> str:
    """One tuple, or one for each choice of autotuning."""
    grids: Any = kwargs.get("grid", [])
    choices: Any = kwargs.get("choices", [])
    shown = [show(tuple(grid)) for grid in grids]
    if len(set(shown)) <= 1 or len(shown) != len(choices):
        return shown[0] if shown else "(1,)"
    names = sorted({name for choice in choices for name in choice})
    rows = {tuple(choice.get(name) for name in names): grid for choice, grid in zip(choices, shown, strict=True)}
    table = ", ".join(f"{key!r}: {grid}" for key, grid in rows.items())
    asked = ", ".join(f"meta[{name!r}]" for name in names)
    return f"lambda meta: {{{table}}}[{asked},]"
