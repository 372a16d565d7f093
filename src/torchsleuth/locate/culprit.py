"""Decide which operator is to blame, where judgements show it; where they do not, none is named.

A culprit is the only operator of the repro, or the first whose own result is wrong, or the one that a step inside the
compiler mistreats: the Case passes when that step alone is skipped, and when no other step does as much.  An operator
that an error names is one, too, where it stands in the repro once.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchsleuth.case.ir import Node, picks
from torchsleuth.case.model import Case
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.judge.match import Match
from torchsleuth.locate.divergence import Diverging
from torchsleuth.locate.inside import Located
from torchsleuth.operators.names import base_name
from torchsleuth.operators.properties import computes

_OF_OPERATORS = ("lowering", "decomposition")


@dataclass(frozen=True)
class Evidence:
    """What is known of a repro's operators."""

    fails: tuple[str, ...]  # numbers of the judgements in which the repro itself failed
    named: str | None = None  # the operator that the error names
    inside: Located | None = None
    node: Node | None = None  # that the located step works on
    diverging: Diverging | None = None  # of the repro, or of a Case that holds it


@dataclass(frozen=True)
class Blame:
    """The operator to blame, and the Claim that says why."""

    node: Node
    claim: Claim


def find(case: Case, evidence: Evidence) -> Blame | None:
    """Name the operator to blame in a repro; None where it cannot be told."""
    calls = [n for g in case.graph.all_graphs() for n in g.nodes if n.is_call and n.name not in picks(g)]
    if len(calls) == 1:
        return _blame(calls[0], "the only operator of the repro", evidence.fails)
    return _named(calls, evidence) or _first_wrong(calls, evidence) or _mistreated(calls, evidence)


def _named(calls: list[Node], evidence: Evidence) -> Blame | None:
    """The error says which operator was being compiled; a repro that fails in the same way says so, too."""
    if evidence.named is None:
        return None
    found = [n for n in calls if base_name(n.target) == base_name(evidence.named)]
    return _blame(found[0], "the error names it", evidence.fails) if len(found) == 1 else None


def _first_wrong(calls: list[Node], evidence: Evidence) -> Blame | None:
    """Compiled with every intermediate value returned, its result is the first that differs from eager's."""
    diverging = evidence.diverging
    if diverging is None or diverging.blamed is None or diverging.judgement is None:
        return None
    blamed = next((n for n in calls if _is_same(n, diverging.blamed)), None)
    if blamed is None or diverging.judgement.match is not Match.SAME or not computes(blamed.target):
        return None
    return _blame(blamed, "its result is the first that is wrong", (diverging.judgement.id,))


def _mistreated(calls: list[Node], evidence: Evidence) -> Blame | None:
    found = evidence.inside
    if found is None or found.blamed is None or not found.alone or found.partners:
        return None
    if found.blamed.stage not in _OF_OPERATORS or not computes(found.blamed.name):
        return None
    node = evidence.node if evidence.node in calls else _only(calls, found.blamed.name)
    backing = [i for one in found.claims if one.kind is ClaimKind.CULPRIT for i in one.judgements]
    if node is None or not backing:
        return None
    text = f"The operator to blame is {node.target}: the {found.name} mistreats it."
    return Blame(node, Claim(ClaimKind.CULPRIT, Topic.REPRO, node.target, text, tuple(backing)))


def _only(calls: list[Node], name: str) -> Node | None:
    found = [n for n in calls if base_name(n.target) == base_name(name)]
    return found[0] if len(found) == 1 else None


def _is_same(node: Node, other: Node) -> bool:
    return node.name == other.name and base_name(node.target) == base_name(other.target)


def _blame(node: Node, why: str, backing: tuple[str, ...]) -> Blame | None:
    if not backing:
        return None
    text = f"The operator to blame is {node.target}: {why}."
    return Blame(node, Claim(ClaimKind.CULPRIT, Topic.REPRO, node.target, text, backing))
