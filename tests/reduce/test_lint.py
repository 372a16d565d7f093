"""What cannot be built is never judged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import SQUARE, case_of, chain, matches, parallel

from torchsleuth.case.ir import Graph, Node, Op, Ref
from torchsleuth.case.model import Case
from torchsleuth.reduce.lint import problems
from torchsleuth.reduce.oracle import Oracle


def with_nodes(*nodes: Node) -> Case:
    return case_of([Node("x", Op.PLACEHOLDER, "x", value=SQUARE), *nodes], 1)


RETURN_X = Node("output", Op.OUTPUT, "output", ((Ref("x"),),))
RELU = Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=SQUARE)
TENSOR = chain(1).inputs[0]


def test_good_graphs_have_no_problem():
    for case in (chain(3), parallel(3, 4, {}), with_nodes(RELU, RETURN_X)):
        assert list(problems(case)) == []


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (with_nodes(replace(RELU, args=(Ref("gone"),)), RETURN_X), "relu reads gone, which is not there"),
        (with_nodes(RELU, RELU, RETURN_X), "relu is there twice"),
        (with_nodes(RELU, replace(RETURN_X, args=((),))), "nothing is given back"),
        (with_nodes(Node("w", Op.GET_ATTR, "weight"), RETURN_X), "w names weight, which is not there"),
        (replace(chain(1), inputs=()), "inputs and placeholders are not in step"),
        (replace(chain(1), storages=()), "a tensor has no storage"),
        (replace(chain(1), inputs=(replace(TENSOR, dynamic=(2,)),)), "a dimension is dynamic that is not there"),
        (
            replace(chain(1), inputs=(replace(TENSOR, stride=(1,)),)),
            "a tensor has another number of sizes than of strides",
        ),
    ],
)
def test_each_problem_is_named(case, problem):
    assert problem in list(problems(case))


def test_bodies_are_looked_at_too():
    good = with_nodes(Node("b", Op.GET_ATTR, "body"), RETURN_X)
    body = Graph((RELU, replace(RETURN_X, args=((Ref("relu"),),))))
    case = replace(good, graph=replace(good.graph, bodies={"body": body}))
    assert list(problems(case)) == ["relu reads x, which is not there"]


def test_the_oracle_does_not_ask_the_judge_about_it():
    asked = []

    def judge(cases):
        asked.extend(cases)
        return matches([True] * len(cases))

    oracle = Oracle(judge, lambda c: repr(c), chain(3))
    bad = with_nodes(replace(RELU, args=(Ref("gone"),)), RETURN_X)
    assert oracle.fail([bad, chain(2)]) == [False, True]
    assert len(asked) == oracle.judged == 1
