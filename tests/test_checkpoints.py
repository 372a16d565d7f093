"""The smaller scripts on the way, and when one of them is verified."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Tensor
from torchsleuth.case.program import Form, render
from torchsleuth.investigate.checkpoints import Checkpoints, Pace
from torchsleuth.judge.bench import Bench, Way

VALUE = Value("torch.float32", (4,), (1,))

WAY = Way(Form.COMPILE, False, Path())


def sines(count: int, *, kept: int = 0) -> Case:
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=VALUE)]
    for i in range(count):
        nodes.append(Node(f"sin_{i}", Op.CALL_FUNCTION, "torch.sin", (Ref(nodes[-1].name),), value=VALUE))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    tensor = Tensor("torch.float32", (4,), (1,))
    return Case(Level.DYNAMO, Graph(tuple(nodes)), (tensor,), storages=(Storage(kept, kept=bool(kept)),))


def checkpoints(home: Path, said: list[str]) -> Checkpoints:
    bench = Bench(None, home, python=sys.executable, environment={}, deadline=1.0)  # type: ignore[arg-type]
    return Checkpoints(bench, said.append, home)


def test_each_is_a_script_named_by_its_size_and_the_largest_go_first(tmp_path: Path) -> None:
    said: list[str] = []
    kept = checkpoints(tmp_path, said)
    for size in range(20, 0, -1):
        kept.write(sines(size), WAY, render(sines(size)).source)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"repro_1_op.py", *(f"repro_{n}_ops.py" for n in range(2, 13))}
    text = (tmp_path / "checkpoints" / "repro_3_ops.py").read_text()
    compile(text, "repro_3_ops.py", "exec")
    assert text.count("torch.sin(") == 3
    assert said == []


def test_a_simpler_one_of_the_same_size_takes_its_place(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path, [])
    kept.write(sines(2), WAY, "first")
    kept.write(sines(2), WAY, "second")
    assert (tmp_path / "checkpoints" / "repro_2_ops.py").read_text() == "second"


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    said: list[str] = []
    kept = checkpoints(tmp_path, said)
    kept.write(sines(3), WAY, "a")
    kept.write(sines(2), WAY, "b")
    assert len(said) == 1
    assert said[0].startswith("no checkpoints are written: Cannot write")
    assert [len(c.graph.nodes) for c, _ in kept.larger_than(sines(2))] == [5], "what it knows is not lost"


def test_data_that_would_fill_the_disk_is_not_copied(tmp_path: Path) -> None:
    said: list[str] = []
    kept = checkpoints(tmp_path, said)
    case = sines(2, kept=100 * 2**20)
    kept.write(case, WAY, render(case, data=True).source)
    assert said == ["no checkpoints are written: each would hold 100 MB of data"]
    assert not (tmp_path / "checkpoints").exists()


def test_where_the_smallest_is_no_good_two_others_are_tried(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path, [])
    for size in (40, 30, 20, 10, 5, 1):
        kept.write(sines(size), WAY, "")
    sizes = [len(c.graph.nodes) - 2 for c, _ in kept.larger_than(sines(1))]
    assert sizes == [5, 20]
    assert kept.larger_than(replace(sines(40))) == []


def test_a_verification_on_the_way_is_due_when_much_is_gained_and_it_costs_little() -> None:
    now = [0.0]
    pace = Pace(cost=10.0, whole=100, now=lambda: now[0])
    now[0] = 9.0
    assert not pace.due(50), "something smaller may be found yet"
    now[0] = 29.0
    assert pace.due(50)
    assert not pace.due(100), "the whole is the last that one wants to see"
    now[0] = 31.0
    assert pace.due(100), "nothing was verified so far"
    with pace.spending(100):
        now[0] = 41.0
    now[0] = 120.0
    assert not pace.due(10), "80 seconds of work for a verification of 10"
    now[0] = 122.0
    assert not pace.due(51), "not half as large"
    assert pace.due(50)
    with pace.spending(50):
        now[0] = 142.0
    assert not pace.due(20)
    now[0] = 142.0 + 8 * 20 + 1
    assert not pace.due(26), "half of what is in place by now"
    assert pace.due(25)
