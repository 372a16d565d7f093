"""What graphs may do besides giving results: judged by the names of operators, rather too often than too seldom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from torchsleuth.case.ir import Arg, Graph, Node, inputs_of
from torchsleuth.operators import properties
from torchsleuth.operators.names import parse

# Of operators that draw only where they drop something: the places of the probability and of `training`.
_DROPPING = {
    "dropout": (1, 2),
    "alpha_dropout": (1, 2),
    "native_dropout": (1, 2),
    "scaled_dot_product_attention": (4, None),
    **dict.fromkeys(("lstm", "gru", "rnn_relu", "rnn_tanh"), (5, 6)),
}


def draws(graph: Graph) -> bool:
    """Whether it may draw random numbers."""
    return any(_draws(node) for one in graph.all_graphs() for node in one.nodes if node.is_call)


def _draws(node: Node) -> bool:
    name = parse(node.target).name
    if not properties.may_draw(node.target):
        return False
    if name not in _DROPPING or parse(node.target).overload == "data":  # a packed sequence has an argument more
        return True
    p_at, training_at = _DROPPING[name]
    p = _argument(node, p_at, ("p", "dropout_p"), 0.0 if name.startswith("scaled") else 0.5)
    training = True if training_at is None else _argument(node, training_at, ("training", "train"), True)
    return p != 0 and training is not False


def _argument(node: Node, place: int, names: Sequence[str], default: Arg) -> Arg:
    by_name = (node.kwargs[name] for name in names if name in node.kwargs)
    return next(by_name, node.args[place] if len(node.args) > place else default)


def writes_by_index(graph: Graph) -> bool:
    """Whether it may write where a tensor says: what is written to one place twice is in no order."""
    calls = (n for one in graph.all_graphs() for n in one.nodes if n.is_call)
    return any(properties.writes_by_index(n.target) for n in calls)


def may_write(graph: Graph) -> bool:
    return any(writes(node) for one in graph.all_graphs() for node in one.nodes)


def writes(node: Node) -> bool:
    if not node.is_call:
        return False
    if properties.may_write(node.target) or node.kwargs.get("inplace") is True or "out" in node.kwargs:
        return True
    return "torch.nn.functional" in node.target and True in node.args  # relu(x, True)


def written(node: Node) -> Collection[str]:
    """Names of what a node that writes may write to: its first argument, where more is not known of it."""
    if "out" in node.kwargs:
        return list(inputs_of(replace(node, args=(), kwargs={"out": node.kwargs["out"]})))
    if properties.may_write_several(node.target):
        return list(inputs_of(node))
    return list(inputs_of(replace(node, args=node.args[:1], kwargs={}))) or list(inputs_of(node))[:1]
