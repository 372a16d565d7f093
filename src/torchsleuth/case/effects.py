"""What graphs may do besides giving results: judged by the names of operators, rather too often than too seldom."""

from __future__ import annotations

from torchsleuth.case.ir import Graph, Node, Op

_WRITERS = {"setitem", "delitem", "copy_", "set_", "resize_", "swap_tensors"}
_PURE = {"aten", "prims", "higher_order"}
_STATISTICS = ("batch_norm", "instance_norm")


_RANDOM = ("rand", "dropout", "bernoulli", "normal", "multinomial", "uniform", "exponential", "poisson", "scaled_dot")


def draws(graph: Graph) -> bool:
    """Whether it may draw random numbers."""
    calls = [n.target for one in graph.all_graphs() for n in one.nodes if n.is_call]
    return any(word in target for target in calls for word in _RANDOM)


def may_write(graph: Graph) -> bool:
    return any(writes(node) for one in graph.all_graphs() for node in one.nodes)


def writes(node: Node) -> bool:
    if not node.is_call:
        return False
    name = _bare(node.target)
    words = node.target.split(".")
    if words[:2] == ["torch", "ops"] and words[2] not in _PURE:
        return True  # nobody knows what an operator of somebody else's does
    if name in _WRITERS or node.kwargs.get("inplace") is True or "out" in node.kwargs:
        return True
    if node.op is Op.CALL_FUNCTION and node.target.split(".")[0] in ("operator", "_operator"):
        return name.startswith("i") and name not in ("index", "inv", "invert", "is_", "is_not", "itemgetter")
    if any(word in name for word in _STATISTICS) or ".higher_order." in node.target or "inplace" in name:
        return True
    if "torch.nn.functional" in node.target and True in node.args:
        return True  # relu(x, True)
    return name.endswith("_") and not name.endswith("__") and not name.startswith("_")


def _bare(target: str) -> str:
    words = target.split(".")
    if len(words) > 3 and words[1] == "ops":
        return words[3]  # torch.ops.aten.add_.Tensor
    return words[-1]
