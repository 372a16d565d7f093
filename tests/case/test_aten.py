"""What is kept of the graph that AOTAutograd hands to Inductor."""

from __future__ import annotations

import pytest
import torch
from case_helpers import relu_case
from torch._subclasses.fake_tensor import FakeTensorMode

from torchsleuth.case import aten


def flattening(like: torch.Tensor) -> torch.fx.GraphModule:
    """A graph of one view, as AOTAutograd traced it with an input like `like`."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    with FakeTensorMode() as mode:
        x.meta["val"] = mode.from_tensor(like)
    view = graph.call_function(torch.ops.aten.view.default, (x, [4, 6]))
    view.meta["val"] = x.meta["val"].view(4, 6)
    graph.output((view,))
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (torch.zeros(4, 2, 3), "torch.ops.aten.view.default"),
        (torch.zeros(4, 3, 2).mT, "torch.ops.aten.reshape.default"),  # no view of 4 by 6 is possible
    ],
)
def test_an_input_strided_otherwise_than_traced_makes_views_reshapes(given: torch.Tensor, target: str) -> None:
    case = aten.sketch(flattening(torch.zeros(4, 2, 3)), [given], {}, relu_case())
    assert next(n.target for n in case.graph.nodes if n.args) == target
    assert case.graph.placeholders[0].value is not None
    assert case.graph.placeholders[0].value.stride == given.stride()
