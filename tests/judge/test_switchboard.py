"""Which applications of the compiler are let through, and what is written down of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchsleuth.judge import applied, switchboard
from torchsleuth.judge.applied import Applied
from torchsleuth.torch_api import applications
from torchsleuth.torch_api.applications import About

STAGES = ("post_grad_passes", "lowering")


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What `apply_only` puts at the compiler's gates, without a compiler."""
    installed: list[applications.Gate] = []
    monkeypatch.setattr(switchboard, "on_application", installed.append)
    monkeypatch.setattr(switchboard, "_BOARD", switchboard._Board())
    switchboard.write_to(str(tmp_path), "/somewhere/repro.py")

    def make(*args: object, **kwargs: object) -> applications.Gate:
        switchboard.apply_only(*args, **kwargs)  # type: ignore[arg-type]
        return installed[-1]

    return make


def asked(gate: applications.Gate, names: str) -> str:
    """The names that are let through; a capital letter is a pass, a small one a lowering, * another stage."""
    stages = {n: "fusion" if n == "*" else "post_grad_passes" if n.isupper() else "lowering" for n in names}
    return "".join(n for n in names if gate.begins(About(stages[n], n)))


@pytest.mark.parametrize(
    ("setting", "goes"),
    [
        ({}, "ABc*dBe"),
        ({"first": 0}, "*"),
        ({"first": 3}, "ABc*"),
        ({"without": ("lowering",)}, "AB*B"),
        ({"but": 1}, "Ac*dBe"),
        ({"but_named": "B"}, "Ac*de"),
        ({"first": 4, "but_named": "B"}, "Ac*d"),
    ],
)
def test_what_is_let_through(gate, setting, goes) -> None:
    assert asked(gate(among=STAGES, **setting), "ABc*dBe") == goes


def test_everything_that_is_counted_is_listed_whatever_goes(gate, tmp_path: Path) -> None:
    asked(gate(first=1, among=STAGES), "AB*c")
    assert [one.name for one in applied.read(tmp_path)] == ["A", "B", "c"]


def test_a_second_run_begins_a_new_list(gate, tmp_path: Path) -> None:
    asked(gate(among=STAGES), "AAA")
    asked(gate(among=STAGES), "B")
    assert [one.name for one in applied.read(tmp_path)] == ["B"]


def test_the_graph_is_printed_around_the_last_that_goes(gate, tmp_path: Path) -> None:
    opened = gate(first=2, among=STAGES)
    graphs = iter(["before", "after"])
    last = About("post_grad_passes", "B", graph=lambda: next(graphs))
    opened.begins(About("post_grad_passes", "A", graph=lambda: "never"))
    opened.begins(last)
    opened.ended(last)
    opened.begins(About("post_grad_passes", "C", graph=lambda: "never"))
    assert [(one.before, one.after) for one in applied.read(tmp_path)] == [("", ""), ("before", "after"), ("", "")]


def test_a_list_that_is_full_says_nothing_more(gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchboard, "_MOST_LINES", 2)
    opened = gate(first=4, among=STAGES)
    last = About("post_grad_passes", "D", graph=lambda: "g")
    assert asked(opened, "ABC") == "ABC"
    assert opened.begins(last)
    opened.ended(last)
    assert asked(opened, "E") == ""
    assert [one.name for one in applied.read(tmp_path)] == ["A", "B"]


def test_an_end_whose_beginning_is_not_listed_is_passed_over(tmp_path: Path) -> None:
    rows = [{"stage": "lowering", "name": "a"}, {"ended": 7, "after": "g"}]
    (tmp_path / applied.NAME).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert applied.read(tmp_path) == (Applied("lowering", "a"),)


def test_the_line_is_the_innermost_of_the_judged_script(gate, tmp_path: Path) -> None:
    trace = (
        'File "/x/repro.py", line 3, in f\n  y\nFile "/x/repro.py", line 9, in g\n  z\nFile "/t/nn.py", line 1, in h\n'
    )
    gate(among=STAGES).begins(About("lowering", "a", lambda: trace))
    gate_without = gate(among=STAGES)
    gate_without.begins(About("lowering", "a"))
    assert [one.line for one in applied.read(tmp_path)] == [0]
    gate(among=STAGES).begins(About("lowering", "a", lambda: trace))
    assert [one.line for one in applied.read(tmp_path)] == [9]


def test_a_list_that_was_cut_off_by_a_kill_is_read_up_to_there(tmp_path: Path) -> None:
    (tmp_path / applied.NAME).write_text(json.dumps({"stage": "lowering", "name": "a", "line": 4}) + '\n{"stage": "low')
    assert applied.read(tmp_path) == (Applied("lowering", "a", 4),)
    assert applied.read(tmp_path / "nowhere") == ()


def test_what_was_applied_survives_json() -> None:
    some = (Applied("lowering", "a", 3), Applied("pattern", "p", 0, "before", "after"))
    assert applied.from_json(json.loads(json.dumps(applied.to_json(some)))) == some
