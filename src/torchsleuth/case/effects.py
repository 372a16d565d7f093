"""What graphs may do besides giving results: judged by the names of operators, rather too often than too seldom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, Op, inputs_of

_WRITERS = {"setitem", "delitem", "copy_", "set_", "resize_", "swap_tensors"}
_PURE = {"aten", "prims", "higher_order"}
_STATISTICS = ("batch_norm", "instance_norm")


_RANDOM = (
    "rand", "dropout", "bernoulli", "normal", "multinomial", "uniform", "exponential", "poisson", "geometric", "cauchy",
    "rrelu", "fractional_max_pool", "scaled_dot",
)  # fmt: skip
# Of operators that draw only where they drop something: the places of the probability and of `training`.
_DROPPING = {
    "dropout": (1, 2),
    "alpha_dropout": (1, 2),
    "native_dropout": (1, 2),
    "scaled_dot_product_attention": (4, None),
}


def draws(graph: Graph) -> bool:
    """Whether it may draw random numbers."""
    return any(_draws(node) for one in graph.all_graphs() for node in one.nodes if node.is_call)


def _draws(node: Node) -> bool:
    name = node.target if node.op is Op.CALL_MODULE else _bare(node.target)
    if name == "normalize" or not any(word in name for word in _RANDOM):
        return False
    if name not in _DROPPING:
        return True
    p_at, training_at = _DROPPING[name]
    p = _argument(node, p_at, ("p", "dropout_p"), 0.0 if name.startswith("scaled") else 0.5)
    training = True if training_at is None else _argument(node, training_at, ("training", "train"), True)
    return p != 0 and training is not False


def _argument(node: Node, place: int, names: Sequence[str], default: Arg) -> Arg:
    by_name = (node.kwargs[name] for name in names if name in node.kwargs)
    return next(by_name, node.args[place] if len(node.args) > place else default)


_BY_INDEX = ("scatter", "index_put", "index_copy", "index_fill", "setitem", "put_")


def writes_by_index(graph: Graph) -> bool:
    """Whether it may write where a tensor says: what is written to one place twice is in no order."""
    calls = [_bare(n.target) for one in graph.all_graphs() for n in one.nodes if n.is_call]
    return any(word in name for name in calls for word in _BY_INDEX)


def may_write(graph: Graph) -> bool:
    return any(writes(node) for one in graph.all_graphs() for node in one.nodes)


def writes(node: Node) -> bool:
    if not node.is_call:
        return False
    name = _bare(node.target)
    if _of_others(node):
        return True
    if name in _WRITERS or node.kwargs.get("inplace") is True or "out" in node.kwargs:
        return True
    if node.op is Op.CALL_FUNCTION and node.target.split(".")[0] in ("operator", "_operator"):
        return name.startswith("i") and name not in ("index", "inv", "invert", "is_", "is_not", "itemgetter")
    if any(word in name for word in _STATISTICS) or ".higher_order." in node.target or "inplace" in name:
        return True
    if "torch.nn.functional" in node.target and True in node.args:
        return True  # relu(x, True)
    return name.endswith("_") and not name.endswith("__")


def written(node: Node) -> Collection[str]:
    """Names of what a node that writes may write to: its first argument, where more is not known of it."""
    name = _bare(node.target)
    if "out" in node.kwargs:
        return list(inputs_of(replace(node, args=(), kwargs={"out": node.kwargs["out"]})))
    several = name.startswith(("_fused_", "_amp_")) or any(word in name for word in (*_STATISTICS, "swap_tensors"))
    if several or _of_others(node):
        return list(inputs_of(node))
    return list(inputs_of(replace(node, args=node.args[:1], kwargs={}))) or list(inputs_of(node))[:1]


def _of_others(node: Node) -> bool:
    """Nobody knows what an operator of somebody else's does."""
    words = node.target.split(".")
    return words[:2] == ["torch", "ops"] and words[2] not in _PURE


def _bare(target: str) -> str:
    words = target.split(".")
    if len(words) > 3 and words[1] == "ops":
        return words[3]  # torch.ops.aten.add_.Tensor
    return words[-1]
