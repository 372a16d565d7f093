"""The first operator whose result is wrong, with a toy judge."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reduce"))

from toys import chain

from torchsleuth.case.failure import Phase, wrong_numbers
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Check, Level
from torchsleuth.case.program import Form
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.locate import divergence
from torchsleuth.referee import told
from torchsleuth.referee.told import Told


def judged_wrong_from(first: int, asked: list[Case]) -> divergence.JudgeCase:
    def judge(case: Case) -> Tried:
        asked.append(case)
        results = case.graph.output.args[0]
        assert isinstance(results, tuple)
        rows = [asdict(Told(f"out[{i}]", "values", 0.5, 1e-7, 1.0)) for i in range(first, len(results))]
        failure = wrong_numbers("values", Phase.RUN_FORWARD, told.line(rows), "") if rows else None
        return Tried(Outcome(Verdict.FAILED if failure else Verdict.PASSED, failure), Form.COMPILE, False)

    return judge


def test_the_culprit_is_told_from_those_that_carry_it_on_by_one_judgement() -> None:
    asked: list[Case] = []
    found = divergence.find(replace(chain(9), check=Check()), judged_wrong_from(4, asked))
    assert found is not None
    assert found.culprit is not None
    assert found.culprit.name == "op_4"
    assert [n.name for n in found.wrong] == [f"op_{i}" for i in range(4, 9)]
    assert found.errors["op_4"] == (0.5, 1e-7)
    assert asked[0].graph.output.args == (tuple(Ref(f"op_{i}") for i in range(9)),)
    assert len(asked) == 1


def test_a_fault_that_hides_is_said_to_be_nowhere() -> None:
    assert divergence.find(replace(chain(3), check=Check()), judged_wrong_from(3, [])) is None


def test_an_element_of_several_results_stands_for_the_operator_that_gives_them() -> None:
    x = Node("x", Op.PLACEHOLDER, "x")
    least = Node("least", Op.CALL_METHOD, "min", (Ref("x"), 1))
    index = Node("index", Op.CALL_FUNCTION, "operator.getitem", (Ref("least"), 1), value=Value("int64", (2,)))
    graph = Graph((x, least, index, Node("output", Op.OUTPUT, "output", ((Ref("index"),),))))
    found = divergence.find(Case(Level.DYNAMO, graph, (), check=Check()), judged_wrong_from(0, []))
    assert found is not None
    assert found.culprit == index
    assert found.blamed == least


def test_a_view_of_memory_that_is_written_later_is_not_to_blame() -> None:
    nodes = [
        Node("x", Op.PLACEHOLDER, "x"),
        Node("view", Op.CALL_METHOD, "t", (Ref("x"),), value=Value("float32", (2, 2))),
        Node("put", Op.CALL_METHOD, "index_put_", (Ref("x"),), value=Value("float32", (2, 2))),
        Node("output", Op.OUTPUT, "output", ((Ref("put"),),)),
    ]
    found = divergence.find(Case(Level.DYNAMO, Graph(tuple(nodes)), (), check=Check()), judged_wrong_from(0, []))
    assert found is not None
    assert found.blamed == nodes[2]
