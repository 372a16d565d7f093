"""Sketches of graphs where the program died while it wrote one: the others still tell what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchsleuth.case import folder
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value, operators
from torchsleuth.case.model import Backend, Case, Level, Storage, Surroundings, Tensor
from torchsleuth.investigate import blame, investigation, sketches
from torchsleuth.investigate.investigation import Investigation
from torchsleuth.investigate.placing import Means
from torchsleuth.investigate.program_end import ProgramEnd
from torchsleuth.investigate.repeating import Repeats
from torchsleuth.investigate.rerun import RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.locate.ladder import Component
from torchsleuth.watch.session import Process

VALUE = Value("torch.float32", (4,), (1,))


def sketch(place: Path, count: int = 1, backend: str = "inductor") -> Path:
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=VALUE)]
    for number in range(count):
        nodes.append(Node(f"sin_{number}", Op.CALL_FUNCTION, "torch.sin", (Ref(nodes[-1].name),), value=VALUE))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    surroundings = Surroundings(Backend(backend))
    tensor = Tensor("torch.float32", (4,), (1,))
    folder.save(Case(Level.DYNAMO, Graph(tuple(nodes)), (tensor,), (), (Storage(16),), surroundings), place)
    return place


def cut_short(place: Path) -> Path:
    meta = sketch(place) / "case.json"
    meta.write_bytes(meta.read_bytes()[:100])
    return place


def test_one_that_is_cut_short_is_left_out(tmp_path: Path) -> None:
    places = [sketch(tmp_path / "1", 1), cut_short(tmp_path / "2"), sketch(tmp_path / "3", 3), tmp_path / "gone"]
    assert [operators(case.graph) for case in sketches.whole(places)] == [1, 3]


class PassesBelowDynamo:
    def with_backend(self, backend: str, *_: object, **__: object) -> RerunOutcome:
        return RerunOutcome(Match.PASSED, ProgramEnd(0))

    def without_compiling(self, *_: object, **__: object) -> RerunOutcome:
        return RerunOutcome(Match.PASSED, ProgramEnd(0))


@pytest.mark.parametrize(
    ("kept", "damaged", "blamed"),
    [(["inductor"], 1, "inductor"), (["mine"], 1, "backend"), ([], 1, "unknown"), ([], 0, "inductor")],
)
def test_who_is_blamed_is_known_from_the_others(tmp_path: Path, kept: list[str], damaged: int, blamed: str) -> None:
    for number in range(damaged):
        cut_short(tmp_path / "sketches" / str(number))
    for number, backend in enumerate(kept, start=damaged):
        sketch(tmp_path / "sketches" / str(number), backend=backend)
    again: Any = PassesBelowDynamo()
    found = blame.who_is_to_blame(again, Process(tmp_path, {}), lambda _: None, Repeats(2, 2))
    assert found is not None
    assert Component(found.component).value == blamed


def test_a_script_that_is_ended_while_it_keeps_a_graph_is_counted_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        def __init__(self, *_: object, **__: object) -> None:
            """Of whatever command."""

        def look(self, session: Path, at_most: float) -> None:
            kept = session / "processes" / "1-1" / "sketches"
            sketch(kept / "1", 2)
            cut_short(kept / "2")

        def end(self) -> None:
            """It has."""

    monkeypatch.setattr(investigation, "Again", Ended)
    with Investigation(Means("python", {}, (), 1, 60.0), tmp_path, lambda _: None) as looking:
        largest = looking._largest_graph(tmp_path / "repro.py", 60.0)
    assert largest is not None
    assert operators(largest) == 2
