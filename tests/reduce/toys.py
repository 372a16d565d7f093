"""Toy Cases and toy judges: the reducer's whole behaviour, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torchsleuth.case import graph_text
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Tensor
from torchsleuth.judge.generated import Noted
from torchsleuth.judge.match import Match
from torchsleuth.reduce.facts import from_graph
from torchsleuth.reduce.oracle import Oracle
from torchsleuth.reduce.reducer import Hints, Reducer

SQUARE = Value("torch.float32", (4, 4), (4, 1))


def chain(length: int, special: dict[int, str] | None = None) -> Case:
    """x -> op_0 -> op_1 -> ...; every operator is torch.sin but the special ones."""
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=SQUARE)]
    for i in range(length):
        target = f"torch.{(special or {}).get(i, 'sin')}"
        nodes.append(Node(f"op_{i}", Op.CALL_FUNCTION, target, (Ref(nodes[-1].name),), value=SQUARE))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    return case_of(nodes, inputs=1)


def parallel(count: int, length: int, special: dict[tuple[int, int], str]) -> Case:
    """`count` chains of one input, summed at the end."""
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=SQUARE)]
    ends = []
    for c in range(count):
        last = "x"
        for i in range(length):
            target = f"torch.{special.get((c, i), 'sin')}"
            nodes.append(Node(f"c{c}_{i}", Op.CALL_FUNCTION, target, (Ref(last),), value=SQUARE))
            last = f"c{c}_{i}"
        ends.append(last)
    total = ends[0]
    for c, end in enumerate(ends[1:]):
        nodes.append(Node(f"sum_{c}", Op.CALL_FUNCTION, "operator.add", (Ref(total), Ref(end)), value=SQUARE))
        total = f"sum_{c}"
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(total),),)))
    return case_of(nodes, inputs=1)


def case_of(nodes: Sequence[Node], inputs: int) -> Case:
    tensors = tuple(Tensor("torch.float32", (4, 4), (4, 1), storage=i) for i in range(inputs))
    return Case(Level.DYNAMO, Graph(tuple(nodes)), tensors, storages=tuple(Storage(0) for _ in range(inputs)))


def targets(case: Case) -> list[str]:
    return [n.target.removeprefix("torch.") for n in case.graph.nodes if n.is_call]


def check_legal(case: Case) -> None:
    """Every name bound before it is read, inputs and placeholders in step, something to be seen."""
    known: set[str] = set()
    for node in case.graph.nodes:
        text = graph_text.write(Graph((*case.graph.placeholders, case.graph.output))) if node.op is Op.OUTPUT else ""
        from torchsleuth.case.ir import inputs_of

        unbound = set(inputs_of(node)) - known
        assert not unbound, f"{node.name} reads {unbound}; {text}"
        known.add(node.name)
    assert len(case.graph.placeholders) == len(case.inputs)
    writes = any(n.target.endswith("_") for n in case.graph.nodes)
    assert case.graph.output.args[0] or writes, "nothing is left that anybody could see"


def reduced(
    case: Case, fails: Callable[[Case], bool], *, width: int = 1, named: str | None = None, noted: Noted | None = None
) -> tuple[Case, Oracle]:
    """The reducer's answer with a toy judge, and the Oracle that counted."""

    def judge(cases: Sequence[Case]) -> list[Match]:
        for one in cases:
            check_legal(one)
        return matches(fails(one) for one in cases)

    oracle = Oracle(judge, lambda c: graph_text.write(c.graph) + repr((c.inputs, c.surroundings, c.phase)), case)
    Reducer(oracle, from_graph(case), hints=Hints(named, noted or Noted()), width=width).reduce()
    return oracle.best, oracle


def matches(fail: Iterable[bool]) -> list[Match]:
    """What a judge answers that either sees the failure or a pass."""
    return [Match.SAME if one else Match.PASSED for one in fail]


def needs(*wanted: str) -> Callable[[Case], bool]:
    """Fails when all of these operators are there."""
    return lambda case: set(wanted) <= set(targets(case))


def needs_path(first: str, second: str) -> Callable[[Case], bool]:
    """Fails when the value of `first` reaches `second`: a bug of two operators that must stay connected."""

    def fails(case: Case) -> bool:
        reached: set[str] = set()
        from torchsleuth.case.ir import inputs_of

        for node in case.graph.nodes:
            comes_from = any(name in reached for name in inputs_of(node))
            if node.target == f"torch.{second}" and comes_from:
                return True
            if comes_from or node.target == f"torch.{first}":
                reached.add(node.name)
        return False

    return fails
