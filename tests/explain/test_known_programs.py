"""`torchsleuth explain` on programs whose breaks and recompilations are known: lines, reasons and numbers, all of them.

One process runs them all, each from a file of its own: starting torch takes longer than what is tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from programs import PROGRAMS, Program

from command_line import environment_without_torch_settings, explain_command

pytestmark = pytest.mark.slow

RUN_ALL = """
import runpy, sys
for path in sys.argv[1:]:
    runpy.run_path(path, run_name="__main__")
"""


@pytest.fixture(scope="module", params=["first", "again"])
def facts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "all.py").write_text(RUN_ALL, encoding="utf-8")
    names = [f"programs/{program.name}.py" for program in PROGRAMS]
    (folder / "programs").mkdir()
    for program in PROGRAMS:
        (folder / "programs" / f"{program.name}.py").write_text(program.source, encoding="utf-8")
    done = explain_command(folder, "all.py", *names, env=environment_without_torch_settings())
    assert done.returncode == 0, done.stderr
    assert not (folder / "out" / "logs" / "watch" / "trouble.log").exists()
    data: dict[str, Any] = json.loads((folder / "out" / "explain.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture
def of(facts: dict[str, Any]) -> Callable[[str, str], list[dict[str, Any]]]:
    """The entries of a list of explain.json that belong to one program."""

    def chosen(key: str, name: str) -> list[dict[str, Any]]:
        return [entry for entry in facts[key] if entry["source"].rpartition(":")[0] == f"programs/{name}.py"]

    return chosen


def line(entry: dict[str, Any]) -> int:
    return int(entry["source"].rpartition(":")[2])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_counts_lines_and_reasons_are_right(of: Callable[[str, str], list[dict[str, Any]]], program: Program) -> None:
    breaks, recompiles = of("breaks", program.name), of("recompiles", program.name)
    assert {(line(b), b["reason"], b["count"]) for b in breaks} == program.expected.breaks
    assert {(line(r), r["cause"], r["count"]) for r in recompiles} == program.expected.recompiles
    graphs = of("graphs", program.name)
    assert (len(graphs), sum(g["ops"] for g in graphs)) == (program.graphs, program.ops)
    assert all(b["advice"] and b["counted"] == (program.name != "generator") for b in breaks)


def test_nothing_else_is_said(facts: dict[str, Any]) -> None:
    assert facts["exit_code"] == 0
    assert facts["failures"] == []
    assert facts["notes"] == []
    assert facts["graph_count"] == sum(p.graphs for p in PROGRAMS)
    assert facts["op_count"] == sum(p.ops for p in PROGRAMS)
    assert len(facts["breaks"]) == sum(len(p.expected.breaks) for p in PROGRAMS)
    assert len(facts["recompiles"]) == sum(len(p.expected.recompiles) for p in PROGRAMS)


def test_values_seen_and_the_limit(of: Callable[[str, str], list[dict[str, Any]]]) -> None:
    assert of("recompiles", "sizes")[0]["values"] == ["3", "5", "7", "9"]
    assert of("recompiles", "number")[0]["values"] == ["0.5", "1.5"]
    assert of("recompiles", "string")[0]["values"] == ["'a'", "'b'", "'c'"]
    assert not of("recompiles", "sizes")[0]["limit_hit"]
    assert of("recompiles", "limit")[0]["limit_hit"]


def test_a_break_in_a_loop_costs_the_whole_function(of: Callable[[str, str], list[dict[str, Any]]]) -> None:
    (found,) = of("breaks", "in_a_loop")
    assert found["in_loop"]
    assert found["runs_in_eager"]
    (frame,) = of("frames", "in_a_loop")
    assert frame["outcome"] == "eager"
