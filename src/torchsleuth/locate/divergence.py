"""The first operator whose result is wrong: all that is computed becomes a result, and is compared with eager."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.ir import Node, Op, Ref, picked_from
from torchsleuth.case.model import Case
from torchsleuth.judge.bench import Tried
from torchsleuth.judge.judgement import Judgement
from torchsleuth.operators.names import base_name
from torchsleuth.operators.properties import is_view
from torchsleuth.referee import told

JudgeCase = Callable[[Case], Tried]


@dataclass(frozen=True)
class Diverging:
    """Operators whose results are wrong, in the order of the graph: the first is the culprit, the others carry it."""

    wrong: tuple[Node, ...]
    errors: dict[str, tuple[float, float]]  # node: error of compiled and of eager, relative
    blamed: Node | None = None  # the culprit, or the operator that it takes an element from
    judgement: Judgement | None = None  # of the Case with every intermediate value returned

    @property
    def culprit(self) -> Node | None:
        return self.wrong[0] if self.wrong else None


def find(case: Case, judge: JudgeCase) -> Diverging | None:
    """None where the fault is gone as soon as everything is a result, or lies in what the graph writes."""
    opened, nodes = with_every_result(case)
    tried = judge(opened)
    failure = tried.outcome.failure
    errors: dict[str, tuple[float, float]] = {}
    for row in told.read(failure.text) if failure is not None else ():
        place = re.fullmatch(r"out(?:\[(\d+)\])?", row.path)  # the only one has no number
        if place and (number := int(place.group(1) or 0)) < len(nodes):
            errors[nodes[number].name] = (row.compiled_error, row.eager_error)
    found = tuple(n for n in nodes if n.name in errors)
    if not found:
        return None
    # A view shows what is written to its memory later, and rightly or wrongly so: it is not what went wrong.
    first = next((n for n in found if not _only_views(n)), found[0])
    return Diverging(found, errors, picked_from(case.graph, first) or first, tried.judgement)


def with_every_result(case: Case) -> tuple[Case, Sequence[Node]]:
    nodes = [n for n in case.graph.nodes if n.is_call and n.op is not Op.OUTPUT and n.value is not None]
    output = replace(case.graph.output, args=(tuple(Ref(n.name) for n in nodes),))
    graph = replace(case.graph, nodes=(*case.graph.nodes[:-1], output))
    return replace(case, graph=graph), nodes


def _only_views(node: Node) -> bool:
    """Whether it gives a view of its input: getitem is none of these, because it takes elements of tuples, too."""
    return is_view(node.target) and base_name(node.target) != "getitem"
