"""Where a script binds symbolic sizes: Dynamo makes inputs in the order in which a script comes across them."""

from __future__ import annotations

from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Input, Level, Role, Scalar, Storage, Tensor
from torchsleuth.case.program import Form, render

WEIGHT = Node("w", Op.PLACEHOLDER, "w", value=Value("torch.float32", (3, 3), (3, 1)))
SIZE = Node("s7", Op.PLACEHOLDER, "s7")
X = Node("x", Op.PLACEHOLDER, "x", value=Value("torch.float32", ("s7", 3), (3, 1)))
INPUTS: dict[str, Input] = {
    "w": Tensor("torch.float32", (3, 3), (3, 1), storage=0, requires_grad=True, role=Role.PARAMETER),
    "s7": Scalar(4, "s7"),
    "x": Tensor("torch.float32", (4, 3), (3, 1), storage=1, dynamic=(0,)),
}
PRODUCT = Node("mm", Op.CALL_FUNCTION, "torch.mm", (Ref("x"), Ref("w")))
WIDER = Node("expand", Op.CALL_METHOD, "expand", (Ref("mm"), Ref("s7"), -1))
LONGER = Node("unsqueeze_", Op.CALL_METHOD, "unsqueeze_", (Ref("x"), 0))
OUTPUT = Node("output", Op.OUTPUT, "output", ((Ref("expand"),),))


def forward(*nodes: Node) -> list[str]:
    """The body of the script's function."""
    graph = Graph((*nodes, OUTPUT))
    inputs = tuple(INPUTS[p.name] for p in graph.placeholders)
    case = Case(Level.DYNAMO, graph, inputs, storages=(Storage(36), Storage(48)))
    lines = [line.strip() for line in render(case, Form.COMPILE).source.splitlines()]
    begin = lines.index("def forward(self, x):") + 1
    return lines[begin : next(i for i in range(begin, len(lines)) if lines[i].startswith("return")) + 1]


def test_a_size_stands_before_its_first_use_where_a_parameter_came_first() -> None:
    assert forward(WEIGHT, SIZE, X, PRODUCT, WIDER) == [
        "mm = torch.mm(x, self.w)",
        "s7 = x.size(0)",
        "return mm.expand(s7, -1)",
    ]


def test_a_size_stands_in_front_where_its_tensor_came_first() -> None:
    assert forward(SIZE, X, WEIGHT, PRODUCT, WIDER)[0] == "s7 = x.size(0)"


def test_a_size_stands_in_front_where_shapes_change_in_place() -> None:
    assert forward(WEIGHT, SIZE, X, PRODUCT, LONGER, WIDER)[0] == "s7 = x.size(0)"


def test_a_size_that_nothing_uses_is_not_bound() -> None:
    unused = Node("expand", Op.CALL_METHOD, "expand", (Ref("mm"), 4, -1))
    assert forward(WEIGHT, SIZE, X, PRODUCT, unused) == ["mm = torch.mm(x, self.w)", "return mm.expand(4, -1)"]
