"""Which of several operators is said to be the one where a failure shows."""

from __future__ import annotations

import pytest

from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.locate.shown import last_computing


def graph_of(*targets: str) -> Graph:
    def node(number: int, target: str) -> Node:
        value = None if target.startswith("torch.amp") else Value("float32", (2,))
        return Node(f"n{number}", Op.CALL_FUNCTION, target, value=value)

    return Graph(tuple(node(i, t) for i, t in enumerate(targets)))


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        (("torch.full", "torch.amax"), "torch.amax"),
        (("torch.full", "torch.cumsum", "operator.getitem", "torch.Tensor.view"), "torch.cumsum"),
        (
            ("torch.amp.autocast_mode._enter_autocast", "operator.matmul", "torch.amp.autocast_mode._exit_autocast"),
            "operator.matmul",
        ),
        (("torch.ops.aten.view.dtype", "torch.ops.aten.permute.default"), "torch.ops.aten.permute.default"),
        (("torch.gather", "torch._functorch.predispatch._remove_batch_dim"), "torch.gather"),
        ((), None),
    ],
)
def test_the_last_that_computes(targets: tuple[str, ...], shown: str | None) -> None:
    found = last_computing(graph_of(*targets))
    assert (found and found.target) == shown


def test_bodies_are_looked_at() -> None:
    whole = Graph(graph_of("operator.getitem").nodes, {"body": graph_of("torch.scatter_add")})
    found = last_computing(whole)
    assert found is not None
    assert found.target == "torch.scatter_add"


def test_an_element_of_several_results_stands_for_the_operator_that_gives_them() -> None:
    least = Node("least", Op.CALL_METHOD, "min", (Ref("x"), 1))
    index = Node("index", Op.CALL_FUNCTION, "operator.getitem", (Ref("least"), 1), value=Value("int64", (2,)))
    assert last_computing(Graph((least, index))) == least
