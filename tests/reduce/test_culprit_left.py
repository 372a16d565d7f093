"""Who is to blame once the Case is small."""

from __future__ import annotations

import dataclasses

from toys import chain

from torchsleuth.case.ir import Source
from torchsleuth.case.model import Case, Check
from torchsleuth.investigate.reduction import culprit_left
from torchsleuth.write.findings import Culprit

HERE, ELSEWHERE = Source("net.py", 3), Source("net.py", 9)


def left(*operators: str, numbers: bool) -> Case:
    case = chain(len(operators), dict(enumerate(operators)))
    nodes = tuple(dataclasses.replace(n, source=HERE) if n.is_call else n for n in case.graph.nodes)
    graph = dataclasses.replace(case.graph, nodes=nodes)
    return dataclasses.replace(case, graph=graph, check=Check() if numbers else None)


def test_what_fails_without_it_is_not_its_fault() -> None:
    known = Culprit("torch.nn.functional.linear", "lowering of aten.min.default", ELSEWHERE)
    assert culprit_left(known, left("min", numbers=True)) == Culprit("torch.min", known.compiler_pass, HERE)
    assert culprit_left(known, left("min", "neg", numbers=True)) == Culprit(None, known.compiler_pass, HERE)


def test_what_is_left_under_another_name_or_at_its_line_stays() -> None:
    for known in (Culprit("aten.min.default", None, ELSEWHERE), Culprit("torch.amin", None, HERE)):
        assert culprit_left(known, left("neg", "min", numbers=True)) == known


def test_what_an_error_names_stays() -> None:
    known = Culprit("aten.linear.default", None, ELSEWHERE)
    assert culprit_left(known, left("min", numbers=False)) == known
