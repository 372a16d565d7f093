"""Higher-order operators whose bodies see other tensors: as a program calls them, with functions that close over those.

Dynamo hands such an operator what its bodies see as further arguments, and takes no call with them from a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref

FLEX_ATTENTION = "torch.ops.higher_order.flex_attention"
SCAN = "torch.ops.higher_order.scan"
REGION = "torch.ops.higher_order.invoke_subgraph"
REGION_MARK = "@torch.compiler.nested_compile_region"  # makes such a call of each call of a function


def flex_attention(node: Node, show: Callable[[Arg], str]) -> str | None:
    """The call as an expression; None where its arguments are others than those known."""
    if len(node.args) != 9 or node.kwargs or not all(_several(node.args[n]) for n in (4, 7, 8)) or not node.args[4]:
        return None
    query, key, value, score, blocks, scale, options, score_sees, mask_sees = node.args
    *sizes, mask = blocks
    shown = [*map(show, (query, key, value)), _seeing(score, score_sees, show)]
    shown.append(f"({', '.join([*map(show, sizes), _seeing(mask, mask_sees, show)])},)")
    return f"{FLEX_ATTENTION}({', '.join([*shown, show(scale), show(options)])})"


def scan(node: Node, name: str, show: Callable[[Arg], str]) -> list[str] | None:
    """The call as statements that bind `name`; None where its arguments are others than those known."""
    if len(node.args) != 4 or node.kwargs or not (_several(node.args[1]) and _several(node.args[3])):
        return None
    combine, carried, over, sees = node.args
    count = len(carried)
    given = ", ".join(["*carried", "*given", *map(show, sees)])
    return [
        f"def {name}_step(carried, given):",
        f"    made = {show(combine)}({given})",
        f"    return list(made[:{count}]), list(made[{count}:])",
        f"{name}_carried, {name}_made = torch._higher_order_ops.scan({name}_step, {show(carried)}, {show(over)})",
        # With compilation off, torch hands out the only carried value and the only result bare, not as lists.
        f"{name} = torch.utils._pytree.tree_leaves(({name}_carried, {name}_made))",
    ]


def regions(graph: Graph) -> set[str]:
    """Paths of the bodies that are compiled once and called, perhaps often."""
    paths = {n.name: n.target for n in graph.nodes if n.op is Op.GET_ATTR}
    called = [n.args[0] for n in graph.nodes if n.target == REGION and n.args]
    return {paths[arg.name] for arg in called if isinstance(arg, Ref) and arg.name in paths}


def _several(value: Arg) -> bool:
    return isinstance(value, (tuple, list))


def _seeing(function: Arg, sees: Sequence[Arg], show: Callable[[Arg], str]) -> str:
    return f"lambda *given: {show(function)}(*given, {', '.join(map(show, sees))})" if sees else show(function)
